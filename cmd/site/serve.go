package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"lockstep/handlers"
)

type serveCommand struct {
	Addr    string   `help:"Listen here." env:"LOCKSTEP_ADDR" default:"localhost:8080" placeholder:"HOST:PORT"`
	Ceiling float64  `help:"Runs a second that one address may ask for, all its visitors together; 0 sets no ceiling." env:"LOCKSTEP_CEILING" default:"1000" placeholder:"N"`
	Key     string   `help:"Sign the ids of visitors with this, 16 bytes or more, so that several replicas know each other's; else with something random." env:"LOCKSTEP_KEY" placeholder:"SECRET"`
	Proxy   []string `help:"Believe X-Forwarded-For from these networks." env:"LOCKSTEP_PROXY" placeholder:"CIDR"`
	Gallery bool     `help:"Serve /gallery: figures in every state." env:"LOCKSTEP_GALLERY"`
}

// memoryLimit is how many bytes Go's own memory may grow to before what is no
// longer used is collected at once. The program itself adds some 30 MB to what
// the system counts.
const memoryLimit = 96 << 20

// minKey is the fewest bytes of a key that nobody guesses.
const minKey = 16

// Run serves until the context ends. It refuses to start on a bad dive, naming
// all that is wrong.
func (cmd serveCommand) Run(ctx context.Context, opts *options) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if os.Getenv("GOGC") == "" {
		// What is kept takes about 10 MB. Collecting whenever as much again has
		// been used, as Go does by itself, costs a third of the verdicts a second.
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		// Explorations that run at once keep more for a moment, which is not to be
		// multiplied by five.
		debug.SetMemoryLimit(memoryLimit)
	}
	proxies, err := networks(cmd.Proxy)
	if err != nil {
		return err
	}
	if n := len(cmd.Key); n > 0 && n < minKey {
		return fmt.Errorf("--key has %d bytes, and %d or more are wanted; `openssl rand -hex 16` gives some", n, minKey)
	}
	fsys, scripts, course, err := opts.course()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cmd.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	runner, close, err := opts.runner(ctx, scripts, log)
	if err != nil {
		return err
	}
	defer close()
	site, err := handlers.New(fsys, scripts, course, runner, log, handlers.Settings{
		Reload: opts.Content != "", Gallery: cmd.Gallery, Ceiling: cmd.Ceiling, Key: []byte(cmd.Key), Proxies: proxies,
	})
	if err != nil {
		return err
	}
	engine := runner.Sandbox.Engine()
	log.Info("serving", "url", "http://"+listener.Addr().String(), "engine", engine.Name+" "+engine.Version, "mode", string(engine.Mode))
	return serve(ctx, listener, site, log)
}

// serve answers requests until the context ends, then lets those under way
// finish for a moment.
func serve(ctx context.Context, listener net.Listener, site *handlers.Site, log *slog.Logger) error {
	server := &http.Server{
		Handler:           site.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(site.Stop)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// networks reads the proxies' networks; a bad one stops the start.
func networks(texts []string) ([]*net.IPNet, error) {
	var all []*net.IPNet
	for _, text := range texts {
		_, network, err := net.ParseCIDR(text)
		if err != nil {
			return nil, fmt.Errorf("-proxy %s: %w", text, err)
		}
		all = append(all, network)
	}
	return all, nil
}
