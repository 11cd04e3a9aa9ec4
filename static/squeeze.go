package static

import (
	"bytes"
	"fmt"

	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/css"
	"github.com/tdewolff/minify/v2/js"
	"github.com/tdewolff/minify/v2/svg"
)

// squeeze leaves out what only those read who work on a file. Names stay as they
// are, so that what a browser says of a script can be found in it.
func squeeze(ext string, body []byte) ([]byte, error) {
	var by minify.Minifier
	switch ext {
	case ".css":
		by = &css.Minifier{}
	case ".js":
		by = &js.Minifier{KeepVarNames: true}
	case ".svg":
		by = &svg.Minifier{}
	}
	var out bytes.Buffer
	if err := by.Minify(minify.New(), &out, bytes.NewReader(body), nil); err != nil {
		return nil, fmt.Errorf("minify: %w", err)
	}
	return out.Bytes(), nil
}
