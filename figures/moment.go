package figures

import (
	"strings"
	"time"

	"lockstep/figures/expr"
)

// Work is something that an actor does by itself: NAME: work, or work: TEXT.
type Work struct{ Actor, Text string }

func (w Work) actor() string { return w.Actor }
func (w Work) event() string { return strings.TrimSuffix("work: "+w.Text, ": ") }

// Wait is time that passes: wait: 20ms.
type Wait struct{ For time.Duration }

func (Wait) actor() string   { return "" }
func (w Wait) event() string { return "wait " + w.For.String() }

// Lapse is the end of a lease: lapse: KEY.
type Lapse struct{ Key expr.Template }

func (Lapse) actor() string   { return "" }
func (l Lapse) event() string { return "lapse " + l.Key.Source }

// Crash is the end of an actor, whose connections are cut: crash: NAME.
type Crash struct{ Actor string }

func (c Crash) actor() string { return c.Actor }
func (c Crash) event() string { return "crash " + c.Actor }

// Stop is a pause of an actor, which doesn't know of it: stop: NAME.
type Stop struct{ Actor string }

func (s Stop) actor() string { return s.Actor }
func (s Stop) event() string { return "stop " + s.Actor }

// Resume is the end of a pause: resume: NAME.
type Resume struct{ Actor string }

func (r Resume) actor() string { return r.Actor }
func (r Resume) event() string { return "resume " + r.Actor }

// Strike is a fault of a server of the topology, or the end of one: cut, sync,
// kill, promote, down or up.
type Strike struct{ Fault, Node string }

func (Strike) actor() string   { return "" }
func (s Strike) event() string { return s.Fault + " " + s.Node }
