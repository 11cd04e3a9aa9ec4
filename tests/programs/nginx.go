package programs

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Nginx starts an nginx whose http block holds what is given, with ADDRESS in the
// place of where it listens.
func Nginx(t testing.TB, http string) (url string) {
	t.Helper()
	program := Need(t, "nginx", "/usr/sbin/nginx")
	dir := t.TempDir()
	// It gets the socket as an nginx does that takes over from another: nobody
	// else can have the port, and who comes too early waits.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	address := l.Addr().String()
	conf := filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, `daemon off; error_log stderr crit; pid %[1]s/pid; worker_processes 2; user root;
events { worker_connections 512; }
http {
access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
%[2]s
}`, dir, strings.ReplaceAll(http, "ADDRESS", address)), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", conf, "-p", dir)
	cmd.Env = append(os.Environ(), "NGINX=3;")
	cmd.ExtraFiles = []*os.File{socket}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("nginx said:\n%s", said.String())
		}
	})
	return "http://" + address
}
