package say

import (
	"regexp"

	"github.com/a-h/templ"
)

var pointAt = regexp.MustCompile(`\b[Pp]oint at\b`)

// Pointing writes a text in which readers are told to point at something. On a
// screen that is touched, "Point at" is "Tap" and "point at" is "tap": both
// words stand in the page, and its style sheet shows the one that is true.
func Pointing(text string) templ.Component {
	escaped := templ.EscapeString(text) // changes no letter and no blank
	return templ.Raw(pointAt.ReplaceAllStringFunc(escaped, func(words string) string {
		tap := "tap"
		if words[0] == 'P' {
			tap = "Tap"
		}
		return `<span class="by-pointer">` + words + `</span><span class="by-touch" hidden>` + tap + `</span>`
	}))
}
