package card

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/sandbox"
)

// A node is a server of a topology as a run left it. All that it says is from
// the trace: what befell the server, what it answered, and what was read from it.
type node struct {
	Name   string
	Role   string // primary, replica, promoted; empty where the servers are equals
	State  string // up, down, cut off, "up, empty"
	Held   []holding
	Read   bool   // what it holds was read in the end
	Missed string // what it was cut off from when the primary said OK to it
	Votes  []vote
}

// A holding is one key on one server.
type holding struct {
	Key, Value string
	Lease      string // what it was given, or what is left of it
	until      int64  // when the lease ends, in µs of the run; 0: no lease
}

// A vote is what a server answered to a command that could change it.
type vote struct{ Actor, Command, Reply string }

// The states of a node.
const (
	up        = "up"
	upEmpty   = "up, empty"
	down      = "down"
	cutOff    = "cut off"
	promoted  = "promoted"
	isPrimary = "primary"
)

// nodesOf are the servers of a figure, as the run left them; without one, as
// every run finds them.
func nodesOf(f *figures.Figure, r *figures.Result) []*node {
	v := &voting{fig: f}
	for _, name := range f.Topology.Nodes() {
		n := &node{Name: name, State: up}
		if f.Topology.Replicas > 0 {
			n.Role = strings.TrimRight(name, "0123456789")
		}
		v.nodes = append(v.nodes, n)
	}
	if r == nil {
		return v.nodes
	}
	for _, e := range r.Trace {
		switch {
		case e.Event != "":
			v.befall(e.Event)
		case e.Target == "all":
			replies, _ := e.Reply.([]any)
			for i, n := range v.reachable() {
				if i < len(replies) {
					v.answer(n, e, replies[i])
				}
			}
		default:
			if n := v.node(e.Target); n != nil {
				v.answer(n, e, e.Reply)
			}
		}
	}
	v.look(r)
	return v.nodes
}

// voting follows a trace from server to server.
type voting struct {
	fig   *figures.Figure
	nodes []*node
}

func (v *voting) node(name string) *node {
	i := slices.IndexFunc(v.nodes, func(n *node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return v.nodes[i]
}

// reachable are the servers that a command to all goes to, in its order.
func (v *voting) reachable() []*node {
	return slices.DeleteFunc(slices.Clone(v.nodes), func(n *node) bool { return n.State == down })
}

// befall is a strike, or the end of a lease.
func (v *voting) befall(event string) {
	kind, whom, _ := strings.Cut(event, " ")
	if kind == "lapse" {
		for _, n := range v.reachable() {
			n.drop(whom)
		}
		return
	}
	n := v.node(whom)
	if n == nil {
		return
	}
	switch kind {
	case "cut":
		n.State = cutOff
	case "sync":
		for _, from := range v.nodes {
			if from.Role == isPrimary {
				n.Held, n.Missed = slices.Clone(from.Held), ""
			}
		}
	case "kill", "down":
		n.State = down
	case "promote":
		n.State, n.Role = up, promoted
	case "up":
		n.State, n.Held = upEmpty, nil
	}
}

// answer is one reply of one server. What a command did to a key is taken from
// it only where the reply says so; else the key is no longer known.
func (v *voting) answer(n *node, e figures.Entry, reply sandbox.Value) {
	words := strings.Fields(e.Command)
	if len(words) < 2 {
		return // TIME and the like
	}
	name := commandName(e.Command)
	if e.Phase == figures.PhaseObserve {
		if name == "GET" {
			n.Read = true
			n.drop(words[1])
			if reply != nil {
				n.Held = append(n.Held, holding{Key: words[1], Value: say.Reply(reply)})
			}
		}
		return
	}
	n.Votes = append(n.Votes, vote{e.Actor, name, say.Reply(reply)})
	switch {
	case harmless[name] || figures.Failed(reply):
	case name == "SET" && reply == "OK" && len(words) > 2:
		h := holding{Key: words[1], Value: words[2]}
		if _, lasts := figures.LeaseIn(e.Command); lasts > 0 {
			h.Lease, h.until = say.Number(lasts.Milliseconds())+" ms lease", e.AtUS+lasts.Microseconds()
		}
		n.drop(h.Key)
		n.Held = append(n.Held, h)
		if n.Role == isPrimary {
			for _, other := range v.nodes {
				if other.State == cutOff {
					other.Missed = h.Value
				}
			}
		}
	case name == "INCR":
		n.drop(words[1])
		n.Held = append(n.Held, holding{Key: words[1], Value: say.Reply(reply)})
	default:
		for _, word := range words[1:] {
			n.drop(word)
		}
	}
}

// harmless commands change nothing on the server that answers them.
var harmless = map[string]bool{"GET": true, "PTTL": true, "TTL": true, "EXISTS": true, "WAIT": true, "HGET": true}

// look adds what the site itself read at the first server that was up, and drops
// leases that ended meanwhile.
func (v *voting) look(r *figures.Result) {
	for _, n := range v.reachable() {
		n.Held = slices.DeleteFunc(n.Held, func(h holding) bool { return h.until > 0 && h.until <= r.TookUS })
	}
	if alive := v.reachable(); r.Resource != nil && len(alive) > 0 {
		n, after := alive[0], r.Resource.After
		n.Read = true
		n.drop(r.Resource.Key)
		if after.Type != "none" && after.Type != "" {
			n.Held = append(n.Held, holding{Key: r.Resource.Key, Value: after.Text, Lease: lease(after.TTL)})
		}
	}
}

func (n *node) drop(key string) {
	n.Held = slices.DeleteFunc(n.Held, func(h holding) bool { return h.Key == key })
}

// common is the key that a topology's servers are about: the protected one, or
// else the one that is read in the end. What a server holds under it needs no name.
func common(f *figures.Figure) string {
	if f.Resource != "" {
		return f.Resource
	}
	for _, p := range f.Paths {
		for _, o := range p.Observe {
			if words := strings.Fields(o.Command.Source); len(words) > 1 {
				return words[1]
			}
		}
	}
	return ""
}

// counted says how many servers of a majority said OK to whom, of those that
// were asked last.
func counted(f *figures.Figure, nodes []*node) []string {
	if f.Topology.Independent == 0 {
		return nil
	}
	votes := map[string]int{}
	var actors []string
	for _, n := range nodes {
		last := map[string]string{}
		for _, cast := range n.Votes {
			if cast.Command == "SET" {
				last[cast.Actor] = cast.Reply
			}
		}
		for actor, reply := range last {
			if !slices.Contains(actors, actor) {
				actors = append(actors, actor)
			}
			if reply == "OK" {
				votes[actor]++
			}
		}
	}
	slices.SortFunc(actors, cmp.Compare)
	for i, actor := range actors {
		actors[i] = actor + " " + strconv.Itoa(votes[actor]) + " of " + strconv.Itoa(len(nodes))
	}
	return actors
}

// lines is how many lines the replies of a figure's busiest server may need, so
// that they have their room before anything ran.
func lines(f *figures.Figure) string {
	most := 1
	for _, p := range f.Paths {
		at := map[string]int{}
		for _, s := range slices.Concat(p.Setup, p.Steps) {
			send, ok := s.Does.(figures.Send)
			if !ok || len(strings.Fields(send.Command.Source)) < 2 {
				continue
			}
			letters := len(commandName(send.Command.Source)) + len("A nil ")
			for _, name := range f.Topology.Nodes() {
				if send.Target == name || send.Target == "all" || send.Target == "" && name == isPrimary {
					at[name] += letters
				}
			}
		}
		for _, letters := range at {
			most = max(most, (letters+votesToALine-1)/votesToALine)
		}
	}
	return "votes-" + strconv.Itoa(min(most, 4))
}

// votesToALine is how many letters of replies stand in one line of a server.
const votesToALine = 34
