package sandbox

import (
	"context"
	"errors"
)

// Owner of cluster.go: delete this file when cluster.go defines these.

type Cluster struct{}

func (*Sandbox) Clusters() bool { return false }
func (*Sandbox) Replicated(context.Context, int, func(*Cluster) error) error {
	return errors.New("pending")
}
func (*Sandbox) Independent(context.Context, int, func(*Cluster) error) error {
	return errors.New("pending")
}
func (*Cluster) Nodes() []string                                        { return nil }
func (*Cluster) Up() []string                                           { return nil }
func (*Cluster) Do(context.Context, string, []Command) ([]Value, error) { return nil, nil }
func (*Cluster) Cut(context.Context, string) error                      { return nil }
func (*Cluster) Sync(context.Context, string) error                     { return nil }
func (*Cluster) Kill(context.Context, string) error                     { return nil }
func (*Cluster) Promote(context.Context, string) error                  { return nil }
func (*Cluster) Down(context.Context, string) error                     { return nil }
func (*Cluster) Restart(context.Context, string) error                  { return nil }
