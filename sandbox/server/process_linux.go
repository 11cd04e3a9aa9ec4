package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// mostMemory is how much address space a server may have. Valkey's own bound
// covers neither what a script holds nor what one script writes.
const mostMemory = 512 << 20

// dieWithParent has the kernel kill a child when the thread that started it
// ends, however that comes about.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// bound keeps a script that fills memory from taking the machine's.
func bound(pid int) {
	limit := unix.Rlimit{Cur: mostMemory, Max: mostMemory}
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &limit, nil)
}
