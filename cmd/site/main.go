// Site serves the course, or checks it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"lockstep/content"
	"lockstep/figures"
	"lockstep/figures/explore"
	"lockstep/figures/run"
	"lockstep/lua"
	"lockstep/sandbox/contained"
	"lockstep/sandbox/fleet"
	"lockstep/sandbox/server"
	"lockstep/sandbox/sql"
)

// options are the program's settings; each is a flag and an environment variable.
type options struct {
	Content  string           `help:"Read the course from this folder; what is saved there shows at the next request." env:"LOCKSTEP_CONTENT" type:"existingdir" placeholder:"DIR"`
	Valkey   string           `help:"Use a server that somebody else runs and has marked as a sandbox." env:"LOCKSTEP_VALKEY" placeholder:"URL"`
	Server   string           `help:"The server to start: a path, or 'embedded' for the simulated one." env:"LOCKSTEP_SERVER" placeholder:"PATH"`
	Postgres string           `help:"Use this PostgreSQL for the figures whose fence stands in SQL, in place of the embedded SQLite." env:"LOCKSTEP_POSTGRES" placeholder:"DSN"`
	Version  kong.VersionFlag `help:"Print the version."`

	Serve    serveCommand    `cmd:"" default:"withargs" help:"Serve the course (the default)."`
	Check    checkCommand    `cmd:"" help:"Run every path of every figure and compare it with what the dives state."`
	Health   healthCommand   `cmd:"" help:"Ask a running site whether its figures can run."`
	Embedded embeddedCommand `cmd:"" hidden:"" name:"embedded-server" help:"Run the simulated server."`
	Contain  containCommand  `cmd:"" hidden:"" name:"contained-server" help:"Confine this process and become a server."`
}

func main() {
	var opts options
	parser := kong.Must(&opts,
		kong.Name("site"),
		kong.Description("Lockstep: a course on distributed locking in which every claim is run."),
		kong.Vars{"version": version()},
		kong.UsageOnError(),
	)
	parsed, err := parser.Parse(longFlags(os.Args[1:]))
	parser.FatalIfErrorf(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(&opts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// longFlags lets a flag be written with one hyphen, as Go's own tools take it.
func longFlags(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			args[i] = "-" + arg
		}
	}
	return args
}

// version is the commit that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return info.Main.Version
}

// course reads scripts and dives. With -content both of its results may be
// set: pages with faults, and the faults.
func (o *options) course() (fs.FS, lua.Scripts, *content.Course, error) {
	scripts, err := lua.Load(lua.FS())
	if err != nil {
		return nil, nil, nil, err
	}
	fsys := content.FS()
	if o.Content != "" {
		fsys = os.DirFS(o.Content)
	}
	course, faults := content.Load(fsys, scripts)
	if len(faults) > 0 {
		return nil, nil, nil, faults
	}
	return fsys, scripts, course, nil
}

// unpacked is the Valkey that .ci/get put into this user's cache, for the
// machine's own is older; empty where there is none.
func unpacked() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	path, err := exec.LookPath(filepath.Join(cache, "lockstep", "valkey", "valkey-server"))
	if err != nil {
		return ""
	}
	return path
}

// sandbox starts the server on which figures run, or joins the one named.
func (o *options) sandbox(ctx context.Context, scripts lua.Scripts, log *slog.Logger) (*server.Server, error) {
	var embedded []string // nothing where this program can't be found, as without /proc
	if self, err := os.Executable(); err == nil {
		embedded = []string{self, "embedded-server"}
	}
	sources := make(map[string]string, len(scripts))
	for name, s := range scripts {
		sources[name] = s.Source
	}
	box, err := server.Open(ctx, server.Options{
		Server:          cmp.Or(o.Server, unpacked()),
		URL:             o.Valkey,
		EmbeddedCommand: embedded,
		Scripts:         sources,
		Log:             log,
	})
	if err != nil {
		return nil, fmt.Errorf("open the sandbox: %w", err)
	}
	return box, nil
}

// runner opens the stores on which figures run, and gives a run two seconds of
// waiting and one for everything else.
func (o *options) runner(ctx context.Context, scripts lua.Scripts, log *slog.Logger) (*run.Runner, func(), error) {
	box, err := o.sandbox(ctx, scripts, log)
	if err != nil {
		return nil, nil, err
	}
	sql, err := sql.Open(ctx, o.Postgres)
	if err != nil {
		box.Close()
		return nil, nil, fmt.Errorf("open the SQL store: %w", err)
	}
	fleet := fleet.Open(box, 2)
	closeAll := func() {
		sql.Close()
		fleet.Close()
		box.Close()
	}
	return &run.Runner{Sandbox: box, Fleet: fleet, SQL: sql, Limit: 3 * time.Second}, closeAll, nil
}

type checkCommand struct{}

// Run loads everything and runs every path. All faults are printed, one a line.
func (checkCommand) Run(ctx context.Context, opts *options) error {
	_, scripts, course, err := opts.course()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	runner, close, err := opts.runner(ctx, scripts, log)
	if err != nil {
		return err
	}
	defer close()
	report, err := check(ctx, course, runner)
	if err != nil {
		return err
	}
	if len(report.faults) > 0 {
		return report.faults
	}
	engine, store := runner.Sandbox.Engine(), runner.SQL.Engine()
	paths := fmt.Sprint(report.paths)
	if len(report.left) > 0 {
		paths = fmt.Sprintf("%d of %d", report.paths-len(report.left), report.paths)
	}
	fmt.Printf("%d pages, %d figures, %s paths and %d sessions agree with %s %s (%s) and %s %s\n",
		len(course.Pages), report.figures, paths, report.sessions, engine.Name, engine.Version, engine.Mode, store.Name, store.Version)
	for _, path := range report.left {
		fmt.Println("not run:", path)
	}
	return nil
}

type report struct {
	figures, paths, sessions int
	left                     []string // the paths that this server can't run, and why
	faults                   figures.Faults
}

// check runs all figures and sessions of a course.
func check(ctx context.Context, course *content.Course, runner *run.Runner) (report, error) {
	var r report
	for _, page := range course.Pages {
		for _, fig := range page.Figures {
			r.figures++
			r.paths += len(fig.Paths)
			for _, path := range fig.Paths {
				if why := runner.Able(fig, path); why != nil {
					r.left = append(r.left, fmt.Sprintf("%s:%d: path %q: %v", fig.File, path.Line, path.ID, why))
				}
			}
			faults, err := runner.Check(ctx, fig)
			if err != nil {
				return r, err
			}
			r.faults = append(r.faults, faults...)
		}
		for _, s := range page.Sessions {
			r.sessions++
			faults, err := runner.CheckSession(ctx, s)
			if err != nil {
				return r, err
			}
			r.faults = append(r.faults, faults...)
		}
		for _, link := range page.Schedules {
			fault, err := checkSchedule(ctx, page, link, runner)
			if err != nil {
				return r, err
			}
			r.faults = append(r.faults, fault...)
		}
	}
	r.faults.Sort()
	return r, nil
}

// checkSchedule runs the schedule that a page links to.
func checkSchedule(ctx context.Context, page *content.Page, link content.ScheduleLink, runner *run.Runner) (figures.Faults, error) {
	figure, path, _ := strings.Cut(link.Run, ".")
	fig, pa, ok := link.Page.Find(figure, path)
	if !ok || runner.Able(fig, pa) != nil {
		return nil, nil // a fault of loading, or told among those that were not run
	}
	var impossible *explore.ScheduleError
	_, err := runner.Replay(ctx, fig, pa, link.Schedule)
	if errors.As(err, &impossible) {
		return figures.Faults{{File: page.File, Line: link.Line, Message: "the schedule " + link.Schedule + " of " + link.Run + " can't happen: " + impossible.Error()}}, nil
	}
	return nil, err
}

type embeddedCommand struct{}

// Run is the child process of a site that found no server.
func (embeddedCommand) Run(ctx context.Context) error {
	if err := server.RunEmbedded(ctx, os.Stdin); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run the simulated server: %w", err)
	}
	return nil
}

type containCommand struct {
	Cell string `arg:"" help:"What to become, and how confined."`
}

// Run is the child process of a site that starts a server for a visitor's script. It
// returns only where that failed.
func (c containCommand) Run() error { return contained.Run(c.Cell) }
