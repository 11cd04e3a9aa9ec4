package contained

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockstep/sandbox"
)

// TestMain also is the processes that the tests start: those that are confined, and a
// site that gets killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "contained-server":
			if err := Run(os.Args[2]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "hold-a-server":
			holdAServer()
		}
	}
	goleak.VerifyTestMain(m)
}

func command() []string { return []string{os.Args[0], "contained-server"} }

// holdAServer runs an endless script, says which process is at it and where, and
// waits to be killed.
func holdAServer() {
	p, err := Open(context.Background(), Options{Command: command(), Deadline: time.Minute, CPU: time.Minute})
	if err != nil || p.Available() != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	_, _ = p.Use(context.Background(), nil, func(*sandbox.DB) error {
		fmt.Println("ready", p.dir.Path, os.Getpid())
		select {}
	})
}

// open opens a pool on a real server, where the machine can contain one.
func open(t testing.TB, opt Options) *Pool {
	t.Helper()
	if _, err := exec.LookPath("valkey-server"); err != nil && os.Getenv("LOCKSTEP_REQUIRE") == "" && opt.Server == "" {
		t.Skip("there is no valkey-server on the PATH")
	}
	opt.Command = command()
	p, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// available is open where containment must hold.
func available(t testing.TB, opt Options) *Pool {
	t.Helper()
	p := open(t, opt)
	if err := p.Available(); err != nil {
		t.Fatal(err)
	}
	return p
}

func line(t testing.TB, text string) sandbox.Command {
	t.Helper()
	args, err := sandbox.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Cmd(args...)
}

// under are the processes whose working directory is within a directory.
func under(dir string) (all []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			all = append(all, pid)
		}
	}
	return all
}
