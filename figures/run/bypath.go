package run

import (
	"runtime"
	"sync"
	"weak"

	"lockstep/figures"
)

// byPath keeps something of each path, for as long as there is the path: a
// course that is read again has others.
type byPath[V any] struct{ kept sync.Map } // weak.Pointer[figures.Path] -> V

func (b *byPath[V]) load(path *figures.Path) (v V, ok bool) {
	kept, ok := b.kept.Load(weak.Make(path))
	if ok {
		v = kept.(V)
	}
	return v, ok
}

// store keeps v, which must not lead to its path.
func (b *byPath[V]) store(path *figures.Path, v V) {
	key := weak.Make(path)
	if _, again := b.kept.Swap(key, v); !again {
		runtime.AddCleanup(path, func(key weak.Pointer[figures.Path]) { b.kept.Delete(key) }, key)
	}
}
