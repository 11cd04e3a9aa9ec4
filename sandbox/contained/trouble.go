package contained

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// A Kind says why a script didn't run to its end.
type Kind string

// The kinds. Script is an error of the script's own, with its line; the others are
// limits, and Crash is a fault of the server's that the script met.
const (
	Script Kind = "script"
	Time   Kind = "time"
	Memory Kind = "memory"
	Reply  Kind = "reply"
	Crash  Kind = "crash"
)

// Trouble says that a script didn't run to its end. Nothing in it is of the host.
type Trouble struct {
	Kind Kind   `json:"kind"`
	Name string `json:"-"`              // the script's, where it is known
	Line int    `json:"line,omitempty"` // of the script's text, from 1; 0 where it isn't known
	Text string `json:"text"`
}

func (t *Trouble) Error() string { return string(t.Kind) + ": " + t.Text }

// What the server adds to the error of a script that it stopped, and where it says
// that a line is.
var (
	raised   = regexp.MustCompile(` script:(?: [0-9a-f]{40},)? on @user_script:(\d+)\.$`) // Valkey 9 leaves the SHA1 out
	compiled = regexp.MustCompile(`user_script:(\d+): `)
	uncaught = "Error compiling script (new function): "
)

// fromScript reads the error of a script that ended by one, or gives nil: a script
// may also return an error reply, which is a result.
func fromScript(text string) *Trouble {
	if strings.HasPrefix(text, "ERR ") && strings.HasSuffix(strings.TrimSuffix(raised.ReplaceAllString(text, ""), " script"), "not enough memory") {
		return &Trouble{Kind: Memory, Text: "the script takes more memory than it may"}
	}
	t := &Trouble{Kind: Script}
	if at := raised.FindStringSubmatch(text); at != nil {
		t.Line, _ = strconv.Atoi(at[1])
		text = strings.TrimSuffix(text, at[0])
		text = strings.TrimSuffix(text, " script")
	} else if strings.Contains(text, uncaught) {
		text = strings.Replace(text, uncaught, "", 1)
		if at := compiled.FindStringSubmatch(text); at != nil {
			t.Line, _ = strconv.Atoi(at[1])
		}
	} else {
		return nil
	}
	text = strings.TrimPrefix(text, "ERR ")
	t.Text = compiled.ReplaceAllString(text, "")
	return t
}

// noteReply remembers the first script that ended by an error.
func (p *process) noteReply(cmd redis.Cmder, reply any) {
	refused, ok := reply.(refusal)
	if !ok {
		return
	}
	t := fromScript(string(refused))
	switch {
	case strings.HasPrefix(string(refused), "OOM "):
		t = &Trouble{Kind: Memory, Text: "the database takes more memory than it may"}
	case t == nil:
		return
	case len(cmd.Args()) > 1:
		sha, _ := cmd.Args()[1].(string)
		t.Name = p.names[sha]
	}
	p.keepTrouble(t)
}

// note remembers a reply that wasn't let in.
func (p *process) note(err error) {
	if errors.Is(err, errReply) {
		text := strings.TrimPrefix(err.Error(), errReply.Error()+": ")
		p.keepTrouble(&Trouble{Kind: Reply, Text: "the script's reply can't be taken: " + text})
	}
}

func (p *process) keepTrouble(t *Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == nil || p.trouble.Kind == Script && t.Kind != Script {
		p.trouble = t
	}
}

// grownBy is how much memory a server has that died for want of it: at rest it is
// at 13 MB.
const grownBy = 28 << 10 // in kB, as the kernel counts it

// ended says why the server's process ended by itself, or at the deadline; nil
// where it was no script's doing.
func (p *process) ended(state *os.ProcessState, overdue bool) *Trouble {
	usage, _ := state.SysUsage().(*syscall.Rusage)
	status, _ := state.Sys().(syscall.WaitStatus)
	worked := state.UserTime() + state.SystemTime() - p.idle
	switch {
	case overdue && worked*2 >= p.limits.Deadline:
		return &Trouble{Kind: Time, Text: fmt.Sprintf("the script took longer than %v", p.limits.Deadline)}
	case overdue:
		return nil // the machine was busy
	case worked >= p.limits.CPU*9/10:
		return &Trouble{Kind: Time, Text: fmt.Sprintf("the script took more than %v of computing", p.limits.CPU)}
	case usage != nil && usage.Maxrss > grownBy:
		return &Trouble{Kind: Memory, Text: "the script takes more memory than it may"}
	case status.Signaled() || status.Exited():
		return &Trouble{Kind: Crash, Text: "your script crashed the server"}
	}
	return nil
}
