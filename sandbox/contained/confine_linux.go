package contained

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// nobody is who a server is in a user namespace of its own.
const nobody = 65534

// attributes are how a confining process is started.
func attributes(spaces bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if spaces {
		attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// peer gives the process that listens at the other end.
func peer(wire net.Conn) (int, error) {
	raw, err := wire.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return int(cred.Pid), nil
}

// spent is the processor time that a process has had.
func spent(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// Run confines this process for good and becomes the server that text describes. It
// returns only with an error, or, for a probe, when the probe is done.
func Run(text string) error {
	var c cell
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return fmt.Errorf("what to confine: %w", err)
	}
	// What follows holds for one thread. The others end when that one becomes the
	// server, which alone keeps what was given up.
	runtime.LockOSThread()
	if err := c.confine(); err != nil {
		return err
	}
	if len(c.Foreign) > 0 {
		return c.probe()
	}
	argv, env := c.Argv, c.Env
	if err := limit(unix.RLIMIT_AS, c.Memory); err != nil { // last: Go itself has more
		return err
	}
	return fmt.Errorf("become %s: %w", c.Exe, syscall.Exec(c.Exe, argv, env))
}

// confine gives up all that a server has no need of.
func (c *cell) confine() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("the signal at the parent's death: %w", err)
	}
	if c.Idle {
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
			return fmt.Errorf("SCHED_IDLE: %w", err)
		}
	}
	if err := c.lock(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	// Memory is never both written and executed. Linux 6.3 and newer know it.
	_ = unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)
	for _, l := range []struct {
		what int
		most uint64
	}{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_CPU, c.CPU}, {unix.RLIMIT_FSIZE, 1 << 20}, {unix.RLIMIT_NOFILE, 64}} {
		if err := limit(l.what, l.most); err != nil {
			return err
		}
	}
	if err := seccomp.LoadFilter(seccomp.Filter{Policy: calls()}); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}

func limit(what int, most uint64) error {
	if err := unix.Prlimit(0, what, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		return fmt.Errorf("limit %d: %w", what, err)
	}
	return nil
}

// lock has the kernel deny every file that is not named, on this thread.
func (c *cell) lock() error {
	if abi, err := ll.LandlockGetABIVersion(); err != nil || abi < 1 {
		return errors.New("this kernel has none, or it is switched off")
	}
	run := []string{c.Exe}
	if c.Loader != "" {
		run = append(run, c.Loader)
	}
	rules := []landlock.Rule{
		landlock.PathAccess(ll.AccessFSExecute|ll.AccessFSReadFile, run...),
		landlock.PathAccess(ll.AccessFSReadFile, c.Read...).IgnoreIfMissing(),
		// A server that keeps nothing writes no file: it binds its socket.
		landlock.PathAccess(ll.AccessFSMakeSock|ll.AccessFSRemoveFile|ll.AccessFSReadDir, c.Dir),
	}
	fd, flags, err := landlock.V7.BestEffort().NewRulesetFD(rules...)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ll.LandlockRestrictSelf(fd, flags)
}

// calls are the system calls that a server makes once it is confined, and none that
// reaches another process or a network.
func calls() seccomp.Policy {
	is := func(argument uint32, value uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: seccomp.Equal, Value: value}
	}
	var conditions []seccomp.NameWithConditions
	only := func(name string, each ...seccomp.Condition) {
		for _, condition := range each {
			conditions = append(conditions, seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{condition}})
		}
	}
	only("socket", is(0, unix.AF_UNIX))
	only("clone", seccomp.Condition{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD})
	only("prlimit64", is(0, 0))
	only("sched_getaffinity", is(0, 0))
	only("tgkill", is(0, uint64(os.Getpid())))
	only("prctl", is(0, unix.PR_SET_NAME), is(0, unix.PR_GET_NAME))
	// F_SETOWN and its like would send signals to others.
	only("fcntl", is(1, unix.F_GETFD), is(1, unix.F_SETFD), is(1, unix.F_GETFL), is(1, unix.F_SETFL), is(1, unix.F_DUPFD), is(1, unix.F_DUPFD_CLOEXEC))
	return seccomp.Policy{
		DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{
			{Action: seccomp.ActionAllow, Names: known(allowed), NamesWithCondtions: conditions},
			// So that the C library falls back to clone, whose flags can be seen.
			{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: known("clone3")},
		},
	}
}

// allowed are the calls with any arguments. Those that an architecture lacks are left
// out. execve is for the confining process: the files that may be executed are
// Landlock's business.
const allowed = `
	read readv write writev pread64 close lseek open openat newfstatat fstat stat lstat statx access faccessat faccessat2
	readlink readlinkat getcwd unlink unlinkat chmod fchmodat fchmod umask pipe pipe2 dup dup2 dup3
	mmap munmap mprotect mremap madvise brk
	bind listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown
	epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6 eventfd2
	futex futex_waitv set_robust_list rseq set_tid_address get_robust_list membarrier
	rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall
	clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time setitimer
	getpid gettid getppid getuid geteuid getgid getegid getrusage getrlimit sysinfo uname getrandom sched_yield getcpu
	arch_prctl execve exit exit_group`

// known are the calls of a list that this architecture has.
func known(list string) []string {
	info, err := arch.GetInfo("")
	if err != nil {
		return strings.Fields(list) // the filter says what is wrong
	}
	return slices.DeleteFunc(strings.Fields(list), func(name string) bool {
		_, has := info.SyscallNames[name]
		return !has
	})
}
