package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Postgres is a PostgreSQL of a test's own, on a socket, with what README says
// that an operator makes for the course: the role lockstep and its database.
type Postgres struct {
	dir, bin string
	attr     *syscall.SysProcAttr // whose it is: it doesn't run as root
	cmd      *exec.Cmd
}

// StartPostgres starts a server of the newest version that Debian's packages have
// left here.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		missing(t, "there is no PostgreSQL in /usr/lib/postgresql; Debian's package is postgresql")
	}
	dir, err := os.MkdirTemp("", "lockstep-pg") // t.TempDir is too long for a socket, and root's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &Postgres{dir: dir, bin: filepath.Dir(found[len(found)-1]), attr: &syscall.SysProcAttr{}}
	if os.Geteuid() == 0 {
		p.attr.Credential = ordinaryUser(t)
		if err := os.Chown(dir, int(p.attr.Credential.Uid), int(p.attr.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	init := p.command("initdb", "-D", dir+"/data", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	p.Start(t)
	t.Cleanup(p.Stop)
	p.Query(t, "postgres", "CREATE ROLE lockstep LOGIN")
	p.Query(t, "postgres", "CREATE DATABASE lockstep OWNER lockstep")
	return p
}

// ordinaryUser is who owns the server where the tests are run by root.
func ordinaryUser(t testing.TB) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(found.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Fatal("PostgreSQL doesn't run as root, and there is no other user")
	return nil
}

func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = p.attr
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	return cmd
}

// Start starts the server again after Stop, and waits until it answers.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	log, err := os.Create(p.dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = p.command("postgres", "-D", p.dir+"/data", "-k", p.dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		conn, err := pgconn.Connect(t.Context(), p.DSN("owner", "postgres"))
		if err == nil {
			conn.Close(t.Context())
			return
		}
		if time.Now().After(deadline) {
			p.Stop()
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("%v\n%s", err, said)
		}
	}
}

// Stop stops the server at once, whatever is under way.
func (p *Postgres) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	_ = p.cmd.Wait()
}

// DSN is the address of a database, for a role.
func (p *Postgres) DSN(role, database string) string {
	return fmt.Sprintf("host=%s user=%s database=%s", p.dir, role, database)
}

// Query asks as the server's owner, and gives the first column.
func (p *Postgres) Query(t testing.TB, database, statement string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, p.DSN("owner", database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, statement).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	var column []string
	for _, row := range results[0].Rows {
		column = append(column, string(row[0]))
	}
	return column
}
