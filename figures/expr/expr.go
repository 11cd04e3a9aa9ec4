// Package expr is the expressions of the figure language, the texts and command
// lines in which they stand, and how values are written.
package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"lockstep/sandbox"
)

// maxNodes bounds the size of an expression; with the library's own memory
// budget it bounds what evaluating one can cost.
const maxNodes = 500

// An Expr is a compiled expression. It has no side effects.
type Expr struct {
	program *vm.Program
	Names   []Name
}

// A name that an expression reads: "released", or "A.got".
type Name struct {
	Root, Member string
	Column       int // from 1
}

// An exprError is a fault in an expression, with the column at which it starts.
type exprError struct {
	column  int
	message string
}

func (e *exprError) Error() string { return fmt.Sprintf("column %d: %s", e.column, e.message) }

// Compile reads an expression. The names that it uses are kept, so that a name
// which nothing binds can be found before anything runs.
//
// The library has functions of its own, such as first; a name in bound is the
// author's, and hides the function of that name.
func Compile(source string, bound []string) (*Expr, error) {
	seen := &nameVisitor{}
	options := []expr.Option{
		expr.AllowUndefinedVariables(),
		expr.MaxNodes(maxNodes),
		expr.Patch(seen),
		expr.DisableBuiltin("now"),
		expr.Function("code", func(args ...any) (any, error) { return code(args[0]), nil }, new(func(any) string)),
	}
	for _, name := range bound {
		options = append(options, expr.DisableBuiltin(name))
	}
	program, err := expr.Compile(source, options...)
	if err != nil {
		var at *file.Error
		if errors.As(err, &at) {
			message, _, _ := strings.Cut(at.Message, "\n")
			return nil, &exprError{column: at.Column + 1, message: message}
		}
		return nil, &exprError{column: 1, message: err.Error()}
	}
	return &Expr{program: program, Names: seen.names}, nil
}

// code is the first word of an error reply; of anything else it is "".
func code(v any) string {
	if e, ok := v.(sandbox.Error); ok {
		return e.Code()
	}
	return ""
}

// nameVisitor collects the names that an expression reads.
type nameVisitor struct {
	names []Name
}

func (v *nameVisitor) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.MemberNode:
		root, ok := n.Node.(*ast.IdentifierNode)
		if !ok {
			return
		}
		if property, ok := n.Property.(*ast.StringNode); ok {
			// The visitor meets a member's root before the member: make it whole.
			for i := range v.names {
				if v.names[i].Root == root.Value && v.names[i].Member == "" && v.names[i].Column == root.Location().From+1 {
					v.names[i].Member = property.Value
				}
			}
		}
	case *ast.IdentifierNode:
		if n.Value == "code" { // the function
			return
		}
		seen := Name{Root: n.Value, Column: n.Location().From + 1}
		if !slices.Contains(v.names, seen) {
			v.names = append(v.names, seen)
		}
	}
}

// eval gives the value of an expression. A name that isn't in env is nil.
func (e *Expr) eval(env map[string]any) (any, error) {
	return expr.Run(e.program, env)
}

// Holds tells whether the expression is true. One that can't be judged, such as
// a comparison of nil with a number, doesn't hold.
func (e *Expr) Holds(env map[string]any) bool {
	v, err := e.eval(env)
	return err == nil && v == true
}
