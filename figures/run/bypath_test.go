package run

import (
	"runtime"
	"testing"
	"time"

	"lockstep/figures"
)

// TestByPath drops a path: what was kept of it goes, and nothing else.
func TestByPath(t *testing.T) {
	var kept byPath[*plan]
	stays := &figures.Path{ID: "stays"}
	kept.store(stays, &plan{sql: true})
	kept.store(stays, &plan{})
	for range 10 {
		kept.store(&figures.Path{ID: "goes"}, &plan{})
	}
	count := func() (n int) {
		kept.kept.Range(func(any, any) bool { n++; return true })
		return n
	}
	if n := count(); n < 1 || n > 11 {
		t.Fatalf("%d are kept of 11 paths", n)
	}
	for deadline := time.Now().Add(10 * time.Second); count() > 1; {
		if time.Now().After(deadline) {
			t.Fatalf("%d are kept of one path", count())
		}
		runtime.GC()
		runtime.Gosched()
	}
	if p, ok := kept.load(stays); !ok || p.sql {
		t.Errorf("of the path that stays there is %v, %v", p, ok)
	}
	runtime.KeepAlive(stays)
}
