package chart

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/sandbox"
)

// A part is what a command does to a lock.
type part int

const (
	noPart part = iota
	acquires
	renews
	releases
)

// scriptParts tell what a script does to its first key, by how its name begins
// or ends.
var scriptParts = []struct {
	stem string
	does part
}{
	{"extend", renews}, {"renew", renews}, {"holds", renews},
	{"release", releases}, {"unlock", releases},
	{"grant", acquires}, {"acquire", acquires}, {"lock", acquires},
}

// partOf tells what a command does to which key, and with which token.
func partOf(line string) (does part, key, token string) {
	words, err := sandbox.Parse(line)
	if err != nil || len(words) < 2 {
		return noPart, "", ""
	}
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	has := func(option string) bool {
		return slices.ContainsFunc(words[min(3, len(words)):], func(w string) bool { return strings.EqualFold(w, option) })
	}
	switch strings.ToUpper(words[0]) {
	case "SET":
		switch {
		case has("NX"):
			return acquires, words[1], word(2)
		case has("XX"), has("IFEQ"):
			return renews, words[1], word(2)
		}
	case "SETNX":
		return acquires, words[1], word(2)
	case "DEL", "UNLINK", "DELIFEQ":
		return releases, words[1], word(2)
	case "EXPIRE", "PEXPIRE":
		return renews, words[1], ""
	case "EVAL", "EVAL_RO":
		keys, err := strconv.Atoi(word(2))
		if err != nil || keys < 1 || len(words) < 3+keys {
			return noPart, "", ""
		}
		name, key, token := strings.TrimSuffix(words[1], ".lua"), words[3], word(3+keys)
		for _, known := range scriptParts {
			if strings.HasPrefix(name, known.stem) || strings.HasSuffix(name, "_"+known.stem) {
				return known.does, key, token
			}
		}
	}
	return noPart, "", ""
}

// answered tells whether a reply grants what was asked for.
func answered(e figures.Entry) bool {
	switch v := e.Reply.(type) {
	case nil, sandbox.Error:
		return false
	case int64:
		return v != 0
	}
	return !e.Error
}

// tokens learns whose each token is, from the commands that took a lease.
func (c *chart) tokens() {
	if c.run == nil {
		return
	}
	for _, e := range c.run.Trace {
		if does, _, token := partOf(e.Command); does == acquires && token != "" && answered(e) {
			c.holders[token] = e.Actor
		}
	}
}

// believe finds who believes it holds the protected key, and when: from the
// reply that granted it to the actor's own release, or to a reply that tells it
// otherwise. Nobody else's command ends a belief.
func (c *chart) believe() {
	if c.run == nil {
		return
	}
	since := map[string]int64{} // "actor key" -> from
	end := func(actor, key string, at int64, open bool) {
		from, ok := since[actor+" "+key]
		if !ok {
			return
		}
		delete(since, actor+" "+key)
		if t := c.track(actor); t != nil {
			t.Holds = append(t.Holds, stretch{From: from, To: at, Open: open})
		}
	}
	for _, e := range c.run.Trace {
		if e.Phase == figures.PhaseObserve {
			continue
		}
		at := c.at(e.AtUS)
		if actor, ok := strings.CutPrefix(e.Event, "crash "); ok {
			for k := range since {
				if who, key, _ := strings.Cut(k, " "); who == actor {
					end(who, key, at, false)
				}
			}
			continue
		}
		does, key, token := partOf(e.Command)
		if does == noPart || c.fig.Resource != "" && key != c.fig.Resource {
			continue
		}
		switch {
		case does == acquires && answered(e), does == renews && token != "" && answered(e):
			if _, ok := since[e.Actor+" "+key]; !ok {
				since[e.Actor+" "+key] = at
			}
		case does == releases, does == renews && !answered(e):
			end(e.Actor, key, at, false)
		}
	}
	for k := range since {
		actor, key, _ := strings.Cut(k, " ")
		end(actor, key, c.edge(), true)
	}
	for _, t := range c.Tracks {
		slices.SortFunc(t.Holds, func(a, b stretch) int { return cmp.Compare(a.From, b.From) })
	}
	c.overlap()
}

// overlap finds when more than one believes it holds the protected key.
func (c *chart) overlap() {
	if c.fig.Resource == "" {
		return
	}
	type edge struct {
		at int64
		by int
	}
	var edges []edge
	for _, t := range c.Tracks {
		for _, h := range t.Holds {
			edges = append(edges, edge{h.From, 1}, edge{h.To, -1})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	inside, from := 0, int64(0)
	for _, e := range edges {
		was := inside
		inside += e.by
		switch {
		case was < 2 && inside == 2:
			from = e.at
		case was == 2 && inside < 2 && e.at > from:
			c.Both = append(c.Both, stretch{From: from, To: e.at})
		}
	}
}

// readKey makes stretches of the samples: times in which the key held the same
// and its lease drained with the clock.
func (c *chart) readKey() {
	if c.run == nil {
		return
	}
	before := int64(-1)
	for _, s := range c.run.Samples {
		if s.Key == nil {
			continue
		}
		at, now := c.at(s.AtUS), *s.Key
		if len(c.keyed) == 0 {
			first := keyStretch{State: now} // it was so when the path began
			if e := c.cause(&first, at); e != nil && !missing(now) {
				first.From, first.Cause = min(at, c.at(e.AtUS)), e
			}
			first.State.TTL = older(now.TTL, at-first.From)
			c.keyed = append(c.keyed, first)
		} else {
			last := &c.keyed[len(c.keyed)-1]
			cause, since := c.cause(last, at), at
			if cause != nil {
				since = c.at(cause.AtUS)
			}
			if !last.goesOn(at, now, cause, since) {
				c.turn(last, cause, before, at, now)
			}
		}
		before = at
	}
	if n := len(c.keyed); n > 0 {
		last := &c.keyed[n-1]
		last.To = max(c.edge(), last.From)
		if !c.Over {
			last.To = min(last.To, last.ends())
		}
	}
}

// older is a lease as it was so many microseconds before.
func older(ttl, us int64) int64 {
	if ttl < 0 {
		return ttl
	}
	return ttl + us/1000
}

// ends is when the lease of a stretch runs out by the clock.
func (k *keyStretch) ends() int64 {
	if k.State.TTL < 0 {
		return math.MaxInt64
	}
	return k.From + 1000*k.State.TTL
}

// left is the lease of a stretch at a moment of it.
func (k *keyStretch) left(at int64) int64 {
	if k.State.TTL < 0 {
		return k.State.TTL
	}
	return max(0, (k.ends()-at)/1000)
}

// slack is by how many ms a lease may differ from what the clock foretells: a
// sample may come late, and a machine may be busy.
const slack = 25

// goesOn tells whether the key is as the stretch foretells. Where a command may
// have given it a new lease, what is nearer to the sample has happened.
func (k *keyStretch) goesOn(at int64, now figures.KeyState, cause *figures.Entry, since int64) bool {
	if now.Type != k.State.Type || now.Text != k.State.Text || (now.TTL < 0) != (k.State.TTL < 0) {
		return false
	}
	if now.TTL < 0 {
		return now.TTL == k.State.TTL
	}
	differs := distance(now.TTL, k.left(at))
	if cause != nil {
		if _, lasts := figures.LeaseIn(cause.Command); lasts > 0 {
			return differs <= distance(now.TTL, lasts.Milliseconds()-(at-since)/1000)
		}
	}
	return differs <= slack
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// Of two replies on two connections, the one that was read first need not be
// the older: a cause may come skew µs after the sample that saw its effect, and
// a sample may have missed one that came lately µs before it.
const (
	skew   = 3_000
	lately = 60_000
)

// cause finds the last command in or after a stretch that may have changed the
// protected key, as a sample saw it.
func (c *chart) cause(last *keyStretch, at int64) *figures.Entry {
	var found *figures.Entry
	for i := range c.run.Trace {
		e := &c.run.Trace[i]
		if t := e.AtUS - c.Zero; e.Phase == figures.PhaseSteps && t > max(last.From-skew, at-lately) && t <= at+skew &&
			e != last.Cause && changes(*e, c.fig.Resource) && answered(*e) {
			found = e
		}
	}
	return found
}

// missing tells whether there is no key.
func missing(k figures.KeyState) bool { return k.Type == "none" || k.Type == "" }

// reads are commands that leave a key as it is.
var reads = []string{"GET", "EXISTS", "TTL", "PTTL", "TYPE", "STRLEN", "HGET", "HGETALL", "HMGET", "LLEN", "LRANGE", "SISMEMBER", "SMEMBERS", "ZSCORE", "ZRANGE", "EVAL_RO"}

// changes tells whether a command may change a key that it names.
func changes(e figures.Entry, key string) bool {
	words, err := sandbox.Parse(e.Command)
	return err == nil && len(words) > 1 && slices.Contains(words[1:], key) && !slices.Contains(reads, strings.ToUpper(words[0]))
}

// turn ends a stretch where the key changed, and begins the next. What changed
// it is looked for in the trace; else the lease ran out, or the sample is all
// that is known.
func (c *chart) turn(last *keyStretch, cause *figures.Entry, before, at int64, now figures.KeyState) {
	turned := at
	if cause != nil {
		turned = max(last.From, min(at, c.at(cause.AtUS)))
	}
	lapse := last.ends()
	none := missing(now)
	lapsed := false
	switch {
	case none && (cause == nil || lapse <= turned):
		turned, lapsed, cause = min(at, max(lapse, before)), last.State.TTL >= 0, nil
	case lapse < turned && last.State.Text != now.Text:
		// Gone and taken again between two samples.
		last.To = max(lapse, before)
		c.keyed = append(c.keyed, keyStretch{From: last.To, State: figures.KeyState{Type: "none", TTL: -2}, Lapsed: true})
		last = &c.keyed[len(c.keyed)-1]
	}
	last.To = turned
	state := now
	state.TTL = older(now.TTL, at-turned)
	if cause != nil && now.TTL >= 0 {
		if _, lasts := figures.LeaseIn(cause.Command); lasts > 0 {
			state.TTL = min(state.TTL, max(lasts.Milliseconds(), now.TTL))
		}
	}
	c.keyed = append(c.keyed, keyStretch{From: turned, State: state, Lapsed: lapsed, Cause: cause})
}

// stands is the state of the protected key at a moment.
func (c *chart) stands(at int64) (held string, left int64) {
	for i, k := range slices.Backward(c.keyed) {
		if k.From <= at && !c.Leased {
			return c.held(k.State), -2
		}
		if k.From <= at {
			return c.held(k.State), c.keyed[i].left(at)
		}
	}
	return "", -2
}

// held says who holds the key, or else what it holds.
func (c *chart) held(k figures.KeyState) string {
	if missing(k) {
		return "no key"
	}
	if actor := c.holders[k.Text]; actor != "" && k.Type == "string" {
		return "held by " + c.fig.Label(actor)
	}
	return "holds " + clip(say.Key(k), 40)
}

// holder is held for the little room of a track.
func (c *chart) holder(k figures.KeyState) string {
	if actor := c.holders[k.Text]; actor != "" && k.Type == "string" {
		return c.fig.Label(actor)
	}
	return clip(say.Key(k), 18)
}

// clip shortens a text.
func clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
