package handlers

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"lockstep/components"
)

// maxQuery is the most of a query that is looked at, in bytes.
const maxQuery = 200

// search answers /search?q=… with the places of the course that hold its words.
func (s *Site) search(c echo.Context) error {
	ed, err := s.edition()
	if err != nil {
		return err
	}
	query := tidy(c.QueryParam("q"))
	body, err := html(components.Search(s.lookAt(ed.course), query, ed.course.Search(query)))
	if err != nil {
		return fmt.Errorf("render a search: %w", err)
	}
	return newPage(body).serve(c)
}

// tidy is a query as it may be shown: of bounded length, without what nobody
// types.
func tidy(query string) string {
	query = strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")
	query = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, query)
	return strings.Join(strings.Fields(query), " ")
}

// robots asks search engines to leave alone what runs something or lists what
// they know better.
const robots = `User-agent: *
Disallow: /search
Disallow: /*/figures
Disallow: /*?run=
`
