// Package handlers answers HTTP requests. A page is rendered once and served
// from memory; a run of a figure goes to the sandbox.
package handlers

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"lockstep/components"
	"lockstep/content"
	"lockstep/figures/run"
	"lockstep/handlers/admission"
	"lockstep/lua"
	"lockstep/static"
)

// Settings are what an operator may choose.
type Settings struct {
	Reload   bool         // look for changed dives at every request
	Gallery  bool         // serve /gallery, every figure in every state
	Capacity int          // what may be under way at once, in single runs; as much as machine and sandbox bear if 0
	Ceiling  float64      // runs a second of one address, all its visitors together; 0 sets none
	Key      []byte       // signs the ids of visitors; one is made up if it is empty
	Proxies  []*net.IPNet // whose X-Forwarded-For is believed
}

// Site is the course on the web.
type Site struct {
	fsys     fs.FS
	scripts  lua.Scripts
	runner   *run.Runner
	settings Settings
	log      *slog.Logger
	assets   *static.Assets
	files    map[string]*document // static files by address
	gate     *admission.Gate
	queue    *admission.Queue
	capacity int // of the queue, in single runs
	refused  *refusals
	proxy    proxyWatch
	stopped  context.Context // ends the runs that are under way
	stop     context.CancelFunc

	now     atomic.Pointer[edition]
	reloads sync.Mutex
}

// New makes a site of a course that has been loaded from fsys.
func New(fsys fs.FS, scripts lua.Scripts, course *content.Course, runner *run.Runner, log *slog.Logger, settings Settings) (*Site, error) {
	assets, err := static.Load(static.FS())
	if err != nil {
		return nil, err
	}
	s := &Site{fsys: fsys, scripts: scripts, runner: runner, settings: settings, log: log, assets: assets, files: map[string]*document{}}
	s.stopped, s.stop = context.WithCancel(context.Background())
	for _, f := range assets.Files() {
		s.files[static.Prefix+f.Name] = newDocument(f.Type, f.Body, "public, max-age=31536000, immutable")
	}
	s.gate = admission.NewGate(settings.Key, settings.Ceiling)
	s.queue, s.capacity = newQueue(runner.Room(), settings.Capacity)
	s.refused = newRefusals(log)
	s.files["/robots.txt"] = newDocument("text/plain; charset=utf-8", []byte(robots), "public, max-age=86400")
	ed, err := s.print(course)
	if err != nil {
		return nil, err
	}
	if settings.Reload {
		if ed.fingerprint, err = content.Fingerprint(fsys); err != nil {
			return nil, err
		}
	}
	s.now.Store(ed)
	return s, nil
}

// Handler gives all routes. Addresses of pages come from the content, so one
// route takes them all and looks them up.
func (s *Site) Handler() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.fail
	e.IPExtractor = clientIP(s.settings.Proxies)
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true}), secure)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		e.Add(method, "/healthz", s.health)
		e.Add(method, static.Prefix+"*", s.asset)
		e.Add(method, "/robots.txt", s.asset)
		e.Add(method, "/search", s.search)
		e.Add(method, "/*", s.page)
		if s.settings.Gallery {
			e.Add(method, "/gallery", s.gallery)
		}
	}
	return e
}

// Stop ends the runs that wait or are under way, so that they don't hold up the
// end of the program.
func (s *Site) Stop() {
	s.stop()
	s.refused.tell()
}

// clientIP tells who a visitor is: the peer, unless the peer is a proxy that
// the operator has named.
func clientIP(proxies []*net.IPNet) echo.IPExtractor {
	if len(proxies) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		trust = append(trust, echo.TrustIPRange(p))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

// secure sets the headers that every answer carries.
func secure(next echo.HandlerFunc) echo.HandlerFunc {
	header := http.Header{
		"Content-Security-Policy":    {"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"},
		"X-Content-Type-Options":     {"nosniff"},
		"Referrer-Policy":            {"strict-origin-when-cross-origin"},
		"Cross-Origin-Opener-Policy": {"same-origin"},
	}
	return func(c echo.Context) error {
		maps.Copy(c.Response().Header(), header)
		return next(c)
	}
}

// page answers every address that isn't a file: a page, or what lies below it,
// <page>/figures and <page>/figures/<figure>/<path>.
func (s *Site) page(c echo.Context) error {
	ed, err := s.edition()
	if err != nil {
		return err
	}
	address := c.Request().URL.Path
	if c.Request().URL.RawQuery != "" { // which is worth not reading where there is none
		if p, ok := ed.course.Page(address); ok && len(p.Faults) == 0 && c.QueryParam("run") != "" {
			return s.pageWithRun(c, ed, p, c.QueryParam("run"))
		}
	}
	if doc, ok := ed.pages[address]; ok {
		return doc.serve(c)
	}
	if at := strings.LastIndex(address, "/figures"); at > 0 {
		if p, ok := ed.course.Page(address[:at]); ok {
			if len(p.Faults) > 0 {
				return p.Faults[0] // half a figure must not be run
			}
			switch rest := strings.Split(address[at:], "/"); len(rest) {
			case 2:
				if rest[1] == "figures" {
					return s.listFigures(c, p)
				}
			case 4:
				if rest[1] == "figures" {
					return s.runPath(c, p, rest[2], rest[3])
				}
			}
			return notFound("There is no figure at this address.")
		}
	}
	if to := "/" + strings.Trim(address, "/"); to != address {
		if _, ok := ed.pages[to]; ok {
			if q := c.Request().URL.RawQuery; q != "" {
				to += "?" + q
			}
			return c.Redirect(http.StatusMovedPermanently, to)
		}
	}
	return notFound("There is no page at this address.")
}

func (s *Site) asset(c echo.Context) error {
	doc, ok := s.files[c.Request().URL.Path]
	if !ok {
		return notFound("There is no file at this address.")
	}
	return doc.serve(c)
}

// health says whether figures can run, for the operator's own checks.
func (s *Site) health(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	engine := s.runner.Sandbox.Engine()
	if err := s.runner.Sandbox.Health(); err != nil {
		s.log.Warn("health", "cause", err)
		return c.JSON(http.StatusServiceUnavailable, map[string]any{"status": "the sandbox is down", "engine": engine})
	}
	return c.JSON(http.StatusOK, map[string]any{"status": "ok", "engine": engine})
}

// gallery shows figures in all their states, to those who change how they look.
func (s *Site) gallery(c echo.Context) error {
	return s.render(c, http.StatusOK, components.Gallery(s.look()))
}

// look is what pages show of the site itself.
func (s *Site) look() components.Site {
	return s.lookAt(s.now.Load().course)
}

func (s *Site) lookAt(course *content.Course) components.Site {
	return components.Site{Engine: s.runner.Sandbox.Engine(), Assets: s.assets, Course: course}
}
