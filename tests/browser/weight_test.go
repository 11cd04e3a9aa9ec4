package browser_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"lockstep/content"
	"lockstep/tests/course"
)

// heaviest is what a first visit of a page may take, in bytes on the wire: all
// that the browser fetches until it comes to rest, with the headers of the answers.
const heaviest = 40_000

// A scale weighs what a tab fetches.
type scale struct {
	mu      sync.Mutex
	open    map[network.RequestID]string // URLs of requests under way
	answers []answer
	faults  []string
}

// An answer is one that came whole.
type answer struct {
	url   string
	bytes int
}

func (s *scale) listen(event any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if strings.HasPrefix(e.Request.URL, "http") {
			s.open[e.RequestID] = e.Request.URL
		}
	case *network.EventResponseReceived:
		coding := ""
		for name, value := range e.Response.Headers {
			switch strings.ToLower(name) {
			case "set-cookie":
				s.faults = append(s.faults, fmt.Sprintf("%s sets the cookie %v", e.Response.URL, value))
			case "content-encoding":
				coding = fmt.Sprint(value)
			}
		}
		if e.Type == network.ResourceTypeDocument && !strings.Contains(coding, "br") {
			s.faults = append(s.faults, fmt.Sprintf("%s comes as %q, not as br", e.Response.URL, coding))
		}
	case *network.EventLoadingFinished:
		if url, ok := s.open[e.RequestID]; ok {
			s.answers = append(s.answers, answer{url, int(e.EncodedDataLength)})
			delete(s.open, e.RequestID)
		}
	case *network.EventLoadingFailed:
		if url, ok := s.open[e.RequestID]; ok {
			s.faults = append(s.faults, url+" did not load: "+e.ErrorText)
			delete(s.open, e.RequestID)
		}
	}
}

// seen is how many requests there have been, and how many are under way.
func (s *scale) seen() (all, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers) + len(s.open) + len(s.faults), len(s.open)
}

// rest waits until the page has been drawn, has had nothing to do, and has asked
// for nothing more.
func (s *scale) rest(b *tab) {
	b.t.Helper()
	before := -1
	course.Eventually(b.t, patience, "the page comes to rest", func() bool {
		b.js(`new Promise((idle) => requestAnimationFrame(() => requestAnimationFrame(() => requestIdleCallback(() => idle(0)))))`, nil)
		all, open := s.seen()
		quiet := open == 0 && all == before
		before = all
		return quiet
	})
}

// TestWeight weighs a first visit of every page, as a browser with an empty cache
// makes it.
func TestWeight(t *testing.T) {
	t.Parallel()
	home := course.Visit(t).Course.Home
	for _, window := range []size{desktop, phone} {
		for _, p := range append([]*content.Page{home}, course.Visit(t).Course.Pages...) {
			t.Run(fmt.Sprintf("%d%s", window.width, p.URL), func(t *testing.T) {
				t.Parallel()
				b := openTab(t, window) // with a cache of its own
				s := &scale{open: map[network.RequestID]string{}}
				if err := chromedp.Listen(b.ctx, s.listen); err != nil {
					t.Fatal(err)
				}
				b.open(p.URL)
				s.rest(b)
				s.mu.Lock()
				defer s.mu.Unlock()
				sum, of := 0, ""
				for _, a := range s.answers {
					sum += a.bytes
					of += fmt.Sprintf(" %s %d", strings.TrimPrefix(a.url, b.base), a.bytes)
				}
				t.Logf("%d bytes:%s", sum, of)
				for _, f := range s.faults {
					t.Error(f)
				}
				if sum > heaviest || len(s.answers) < 5 {
					t.Errorf("a first visit takes %d bytes in %d answers, more than %d in all:%s", sum, len(s.answers), heaviest, of)
				}
			})
		}
	}
}

// TestLateSheets goes to figures whose sheets come late: none is ever seen
// without, and nothing that is seen moves for it.
func TestLateSheets(t *testing.T) {
	t.Parallel()
	const bare = `[...document.querySelectorAll('.explorer, .timed')].filter((el) => el.checkVisibility({ visibilityProperty: true }) && getComputedStyle(el.matches('.timed') ? el : el.firstElementChild).borderTopStyle !== 'solid').length`
	for _, window := range []size{desktop, phone} {
		for _, p := range course.Visit(t).Course.Pages {
			for i, f := range p.Figures {
				if !f.Explores() && !f.Timed() || i == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%d/%s", window.width, f.ID), func(t *testing.T) {
					t.Parallel()
					b := openTab(t, window, fmt.Sprintf(`(() => {
						let bare = 0;
						const look = () => { bare = Math.max(bare, %s); requestAnimationFrame(look); };
						requestAnimationFrame(look);
						probe.bare = () => bare;
					})()`, bare))
					for _, address := range []string{p.URL, p.URL + "#" + f.ID} {
						b.open("/search") // else the next would stay on the page
						b.open(address)
						if address == p.URL {
							b.scrollTo("#" + f.ID)
						}
						b.wait("the drawing of "+f.ID+" is seen", fmt.Sprintf(`document.querySelector('#%s').querySelector('.explorer, .timed').checkVisibility({ visibilityProperty: true })`, f.ID))
						var n int
						b.js(`probe.bare()`, &n)
						if n > 0 {
							t.Errorf("%s: %d drawings were seen without their sheet", address, n)
						}
					}
				})
				break
			}
		}
	}
}
