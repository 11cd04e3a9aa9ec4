package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

type healthCommand struct {
	Addr string `help:"Where the site listens." env:"LOCKSTEP_ADDR" default:"localhost:8080" placeholder:"HOST:PORT"`
}

// Run asks a running site whether its figures can run; for a container's
// health check, whose image has no other program to ask with.
func (cmd healthCommand) Run(ctx context.Context) error {
	host, port, err := net.SplitHostPort(cmd.Addr)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip.IsUnspecified():
		host = "::1"
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the site: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the site answers %s", answer.Status)
	}
	return nil
}
