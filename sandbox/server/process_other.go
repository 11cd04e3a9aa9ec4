//go:build !linux

package server

import "syscall"

// dieWithParent is the kernel's business on Linux. Elsewhere the server outlives
// a site that is killed with -9.
func dieWithParent() *syscall.SysProcAttr { return nil }

// bound keeps nothing here: only Linux bounds another process.
func bound(int) {}
