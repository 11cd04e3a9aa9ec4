package run

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"lockstep/figures"
	"lockstep/figures/explore"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// Check runs every path of a figure that this server is able to run, and gives
// every way in which it differs from what its author states. The error is the sandbox's: nothing can be said
// of a figure while it is away.
func (r *Runner) Check(ctx context.Context, fig *figures.Figure) (figures.Faults, error) {
	var all figures.Faults
	for _, path := range fig.Paths {
		faults, err := r.checkPath(ctx, fig, path)
		if err != nil {
			return all, fmt.Errorf("%s:%d: path %q: %w", fig.File, path.Line, path.ID, err)
		}
		all = append(all, faults...)
	}
	return all, nil
}

// checkTries is how often a path is run whose verdict is but an excuse, such as
// that this machine was too busy to keep its times.
const checkTries = 3

func (r *Runner) checkPath(ctx context.Context, fig *figures.Figure, path *figures.Path) (figures.Faults, error) {
	if r.Able(fig, path) != nil {
		return nil, nil // such a path shows its recorded verdict, and says why
	}
	result, err := r.Run(ctx, fig, path)
	for tries := 1; err == nil && (excuses(result) || result.Status == figures.Late) && tries < checkTries; tries++ {
		result, err = r.Run(ctx, fig, path)
	}
	var fault figures.Fault
	if errors.As(err, &fault) {
		return figures.Faults{fault}, nil
	}
	if err != nil {
		return nil, err
	}
	return compare(fig, path, result), nil
}

// compare holds a run against what the author states of the path.
func compare(fig *figures.Figure, path *figures.Path, result *figures.Result) (faults figures.Faults) {
	add := func(line int, hint, format string, args ...any) {
		faults = append(faults, figures.Fault{File: fig.File, Line: line, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	if e := result.Explored; e != nil && !e.Complete {
		add(path.Line, "leave out a client, a step or an event", "path %q is over the budget of an exploration: cut off after %v with %d states", path.ID, explore.Budget, e.States)
		return faults
	}
	for _, b := range result.Unkept {
		add(b.Line, "", "path %q: %s", path.ID, b.Message)
	}
	for _, e := range result.Trace {
		if e.Promise != "" && e.Line > 0 {
			add(e.Line, "", "path %q: the reply to %s is %s, and %s is promised", path.ID, e.Command, expr.Print(e.Reply), e.Promise)
		}
	}
	switch {
	case result.Status == figures.Late:
		add(path.Line, "check it again while it is quiet", "path %q: this machine was too busy for its times in %d runs", path.ID, checkTries)
	case excuses(result):
		add(path.Line, "the live text is: "+result.Verdict, "path %q: no rule held in %d runs but one whose text fits any static", path.ID, checkTries)
	case result.Status == figures.Unjudged:
		add(path.Line, "add a verdict whose `when` holds for it", "path %q: %s", path.ID, lowerFirst(result.Verdict))
	case path.Static != "" && !regexp.MustCompile(result.Pattern).MatchString(path.Static):
		add(path.Line, "the live text is: "+result.Verdict, "path %q: static differs from what the server now says", path.ID)
	}
	return faults
}

// excuses tells whether a verdict is one that any static would agree with.
func excuses(result *figures.Result) bool {
	return result.Pattern != "" && regexp.MustCompile(result.Pattern).MatchString("\x00")
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return string(s[0]|0x20) + s[1:]
}

// CheckSession runs a session in an empty database and gives every reply that
// differs from the one written under its command.
func (r *Runner) CheckSession(ctx context.Context, s *figures.Session) (faults figures.Faults, err error) {
	engine := r.Sandbox.Engine()
	for _, e := range s.Exchanges {
		if engine.Simulated() && !r.Sandbox.Faithful(e.Command.Sketch()) {
			return nil, nil
		}
	}
	err = r.Sandbox.Use(ctx, func(db *sandbox.DB) error {
		ctx, cancel := context.WithTimeout(ctx, r.Limit)
		defer cancel()
		for _, e := range s.Exchanges {
			args, _ := e.Command.Fill(nil)
			replies, err := db.Do(ctx, []sandbox.Command{sandbox.Cmd(args...)})
			if err != nil {
				return err
			}
			if got := cli(replies[0]); !sameReply(e.Reply, got) {
				faults = append(faults, figures.Fault{
					File: s.File, Line: e.Line,
					Message: fmt.Sprintf("the reply to %s is written as %q", e.Command.Source, e.Reply),
					Hint:    fmt.Sprintf("the server says %q", got),
				})
			}
		}
		return nil
	})
	return faults, err
}

// sameReply compares a written reply with a real one; "..." matches anything.
func sameReply(written, got string) bool {
	parts := strings.Split(written, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^(?s:" + strings.Join(parts, ".*") + ")$").MatchString(got)
}

// cli writes a reply as valkey-cli prints it.
func cli(v sandbox.Value) string {
	switch v := v.(type) {
	case nil:
		return "(nil)"
	case int64:
		return fmt.Sprintf("(integer) %d", v)
	case sandbox.Error:
		return "(error) " + string(v)
	case string:
		if v == "OK" || v == "QUEUED" || v == "PONG" {
			return v
		}
		return fmt.Sprintf("%q", v)
	case []any:
		if len(v) == 0 {
			return "(empty array)"
		}
		width := len(fmt.Sprint(len(v)))
		lines := make([]string, len(v))
		for i, item := range v {
			head := fmt.Sprintf("%*d) ", width, i+1)
			lines[i] = head + strings.ReplaceAll(cli(item), "\n", "\n"+strings.Repeat(" ", len(head)))
		}
		return strings.Join(lines, "\n")
	}
	return expr.Print(v)
}
