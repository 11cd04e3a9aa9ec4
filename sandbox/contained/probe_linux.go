package contained

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe tries, confined, what a server that a script has taken over would try. Every
// attempt must be denied; the error names those that weren't.
func (c *cell) probe() error {
	var held []error
	try := func(what string, err error) {
		if err == nil {
			held = append(held, errors.New("it could "+what))
		}
	}
	for _, file := range c.Foreign {
		fd, err := unix.Open(file, unix.O_RDONLY, 0)
		try("read what is not its own", err)
		if err == nil {
			_ = unix.Close(fd)
		}
	}
	for _, name := range []string{os.TempDir() + "/lockstep-probe", c.Dir + "/f"} {
		fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
		try("make a file", err)
		if err == nil {
			_, _ = unix.Close(fd), unix.Unlink(name)
		}
	}
	for what, family := range map[string]int{"open an internet socket": unix.AF_INET, "open a netlink socket": unix.AF_NETLINK} {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		try(what, err)
		if err == nil {
			_ = unix.Close(fd)
		}
	}
	if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		// No such socket is there: what counts is who says no.
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: "/nowhere"}); !errors.Is(err, unix.EPERM) {
			try("connect", nil)
		}
		_ = unix.Close(fd)
	}
	try("fork", fork())
	try("trace", unix.PtraceAttach(1))
	try("signal another process", unix.Kill(os.Getppid(), 0))
	try("mount", unix.Mount("none", c.Dir, "tmpfs", 0, ""))
	try("unshare", unix.Unshare(unix.CLONE_NEWNS))
	_, _, no := unix.RawSyscall(unix.SYS_BPF, 0, 0, 0)
	try("load BPF", denied(no))
	_, _, no = unix.RawSyscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
	try("set up io_uring", denied(no))
	try("execute another program", execute("/bin/sh"))
	// From here on Go itself can have no more memory.
	if err := limit(unix.RLIMIT_AS, c.Memory); err != nil {
		held = append(held, err)
	}
	_, _, no = unix.RawSyscall6(unix.SYS_MMAP, 0, 200<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0), 0)
	if no == 0 {
		held = append(held, errors.New("it could have 200 MB"))
	}
	return errors.Join(held...)
}

// denied is nil unless the filter itself refused the call: any other refusal would
// mean that the kernel had looked at it.
func denied(no syscall.Errno) error {
	if no == unix.EPERM {
		return no
	}
	return nil
}

// fork gives nil where a process could be made; it ends at once.
func fork() error {
	pid, _, no := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if no != 0 {
		return no
	}
	if pid == 0 {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// execute gives an error where a program may not be executed; otherwise that program
// takes over, does nothing, and says so by its status.
func execute(program string) error {
	name, err := syscall.BytePtrFromString(program)
	if err != nil {
		return err
	}
	argv := [...]*byte{name, ptr("-c"), ptr("exit 3"), nil}
	env := [...]*byte{nil}
	_, _, no := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	return fmt.Errorf("execute: %w", no)
}

func ptr(text string) *byte {
	p, _ := syscall.BytePtrFromString(text)
	return p
}
