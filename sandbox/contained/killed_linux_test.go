package contained

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestKilled kills a site with -9 while a script is at work: no server outlives it, and
// the next start removes what is left.
func TestKilled(t *testing.T) {
	available(t, Options{})
	site := exec.Command(os.Args[0], "hold-a-server")
	out, err := site.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	var dir string
	var pid int
	if _, scanned := fmt.Sscanf(said, "ready %s %d", &dir, &pid); err != nil || scanned != nil {
		_ = site.Process.Kill()
		_ = site.Wait()
		t.Fatalf("it said %q: %v", said, err)
	}
	eventually(t, 20*time.Second, "a contained server runs", func() bool { return len(under(dir)) > 0 })
	if err := site.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = site.Wait()
	eventually(t, 20*time.Second, "its servers are gone", func() bool { return len(under(dir)) == 0 })
	available(t, Options{})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

// TestIdle holds servers to running only when nothing else wants to.
func TestIdle(t *testing.T) {
	p := available(t, Options{})
	server := <-p.warm
	defer server.stop()
	attr, err := unix.SchedGetAttr(server.cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	if attr.Policy != unix.SCHED_IDLE {
		t.Errorf("the policy is %d, want SCHED_IDLE", attr.Policy)
	}
}
