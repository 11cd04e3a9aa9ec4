package contained

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"lockstep/sandbox"

	"github.com/redis/go-redis/v9"
)

// What the server adds to the error of a script that it stopped, and where it says
// that a line is.
var (
	raised   = regexp.MustCompile(` script:(?: [0-9a-f]{40},)? on @user_script:(\d+)\.$`) // Valkey 9 leaves the SHA1 out
	compiled = regexp.MustCompile(`user_script:(\d+): `)
	uncaught = "Error compiling script (new function): "
)

// fromScript reads the error of a script that ended by one, or gives nil: a script
// may also return an error reply, which is a result.
func fromScript(text string) *sandbox.Trouble {
	if strings.HasPrefix(text, "ERR ") && strings.HasSuffix(strings.TrimSuffix(raised.ReplaceAllString(text, ""), " script"), "not enough memory") {
		return &sandbox.Trouble{Kind: sandbox.OfMemory, Text: "the script takes more memory than it may"}
	}
	t := &sandbox.Trouble{Kind: sandbox.OfScript}
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
		t = &sandbox.Trouble{Kind: sandbox.OfMemory, Text: "the database takes more memory than it may"}
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
		p.keepTrouble(&sandbox.Trouble{Kind: sandbox.OfReply, Text: "the script's reply can't be taken: " + text})
	}
}

func (p *process) keepTrouble(t *sandbox.Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble == nil || p.trouble.Kind == sandbox.OfScript && t.Kind != sandbox.OfScript {
		p.trouble = t
	}
}

// grownBy is how much memory a server has that died for want of it: at rest it is
// at 13 MB.
const grownBy = 28 << 10 // in kB, as the kernel counts it

// ended says why the server's process ended by itself, or at the deadline; nil
// where it was no script's doing.
func (p *process) ended(state *os.ProcessState, overdue bool) *sandbox.Trouble {
	usage, _ := state.SysUsage().(*syscall.Rusage)
	status, _ := state.Sys().(syscall.WaitStatus)
	worked := state.UserTime() + state.SystemTime() - p.idle
	switch {
	case overdue && worked*2 >= p.limits.Deadline:
		return &sandbox.Trouble{Kind: sandbox.OfTime, Text: fmt.Sprintf("the script took longer than %v", p.limits.Deadline)}
	case overdue:
		return nil // the machine was busy
	case worked >= p.limits.CPU*9/10:
		return &sandbox.Trouble{Kind: sandbox.OfTime, Text: fmt.Sprintf("the script took more than %v of computing", p.limits.CPU)}
	case usage != nil && usage.Maxrss > grownBy:
		return &sandbox.Trouble{Kind: sandbox.OfMemory, Text: "the script takes more memory than it may"}
	case status.Signaled() || status.Exited():
		return &sandbox.Trouble{Kind: sandbox.OfCrash, Text: "your script crashed the server"}
	}
	return nil
}
