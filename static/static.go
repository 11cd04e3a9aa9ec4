// Package static holds the site's style sheet, scripts and pictures, each under
// a name that carries a hash of its content, so that browsers may keep it for good.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

//go:embed *.css *.js *.svg
var files embed.FS

// FS returns the assets as they stand in this folder.
func FS() fs.FS { return files }

// Prefix is the address under which assets are served.
const Prefix = "/static/"

// A File is one asset.
type File struct {
	Name string // "site.1a2b3c4d5e.css"
	Type string // its media type
	Body []byte
}

// Assets are the files of this folder by name.
type Assets struct {
	hashed map[string]string // "site.css" -> "site.1a2b3c4d5e.css"
	files  map[string]File   // by hashed name
}

// types are the media types of the files that this folder may hold.
var types = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// Load reads every asset at the top of fsys and names it by its content.
func Load(fsys fs.FS) (*Assets, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("list assets: %w", err)
	}
	a := &Assets{hashed: map[string]string{}, files: map[string]File{}}
	for _, entry := range entries {
		ext := path.Ext(entry.Name())
		kind, ok := types[ext]
		if !ok {
			continue
		}
		body, err := fs.ReadFile(fsys, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read asset: %w", err)
		}
		if body, err = squeeze(ext, body); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		sum := sha256.Sum256(body)
		name := strings.TrimSuffix(entry.Name(), ext) + "." + hex.EncodeToString(sum[:5]) + ext
		a.hashed[entry.Name()] = name
		a.files[name] = File{Name: name, Type: kind, Body: body}
	}
	return a, nil
}

// URL gives the address of an asset: "site.css" is "/static/site.1a2b3c4d5e.css".
// A name that there is no file for is left as it is, so that a crawl finds it.
func (a *Assets) URL(name string) string {
	if hashed, ok := a.hashed[name]; ok {
		return Prefix + hashed
	}
	return Prefix + name
}

// File finds an asset by the name in its address.
func (a *Assets) File(name string) (File, bool) {
	f, ok := a.files[name]
	return f, ok
}

// Files are all assets, by name.
func (a *Assets) Files() []File {
	return slices.SortedFunc(maps.Values(a.files), func(a, b File) int {
		return strings.Compare(a.Name, b.Name)
	})
}
