package playground_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/core"
)

// rulesOf returns the limits of a program in examples/systems as text: those of its policy file if
// it has one, otherwise those of its code. Limits by plan are name/plan, and what stands n-th
// behind a name in code is name/n.
func rulesOf(t *testing.T, system string) map[string]string {
	t.Helper()
	rules := make(map[string]string)
	if text, err := os.ReadFile(filepath.Join(systems, system, "weir.yaml")); err == nil {
		addPolicy(t, rules, text)
		return rules
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(systems, system, "main.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := code{rules: rules, set: make(map[string]ast.Expr)}
	ast.Inspect(file, c.note)
	ast.Inspect(file, c.collect)
	return rules
}

func addPolicy(t *testing.T, rules map[string]string, text []byte) {
	t.Helper()
	var file struct {
		Rules []struct {
			Name  string
			Limit any
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	add := func(name string, limit any) {
		l, err := core.ParseLimit(fmt.Sprint(limit))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rules[name] = l.String()
	}
	for _, r := range file.Rules {
		byPlan, ok := r.Limit.(map[string]any)
		if !ok {
			add(r.Name, r.Limit)
			continue
		}
		for plan, limit := range byPlan["plans"].(map[string]any) {
			add(r.Name+"/"+plan, limit)
		}
	}
}

// code finds the limits in a program: what core makes of constants, behind a name.
type code struct {
	rules map[string]string
	set   map[string]ast.Expr // variables, by name
}

// note keeps what variables are set to.
func (c *code) note(n ast.Node) bool {
	if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.DEFINE && len(a.Rhs) == 1 {
		if name, ok := a.Lhs[0].(*ast.Ident); ok {
			c.set[name.Name] = a.Rhs[0]
		}
	}
	return true
}

// collect adds the limits in a list: of the elements of a literal, or of the arguments of a call.
func (c *code) collect(n ast.Node) bool {
	var list []ast.Expr
	switch n := n.(type) {
	case *ast.CompositeLit:
		list = n.Elts
	case *ast.CallExpr:
		list = n.Args
	}
	name, named, of := "", false, []string(nil)
	for _, e := range list {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := c.value(pair.Key).(string); ok { // of a map
				c.add(key, 1, c.value(pair.Value))
				continue
			}
			e = pair.Value
		}
		switch v := c.value(e).(type) {
		case string:
			if !named {
				name, named = v, true
			}
		case core.Limit:
			if of = append(of, v.String()); named {
				c.add(name, len(of), v)
			}
		case int64: // behind a leaky queue: what goes on at once
			if named && v > 0 && len(of) > 0 {
				c.rules[name] += fmt.Sprintf(" undelayed %d", v)
			}
		}
	}
	return true
}

func (c *code) add(name string, n int, value any) {
	if limit, ok := value.(core.Limit); ok {
		if n == 1 {
			c.rules[name] = limit.String()
		}
		c.rules[name+"/"+strconv.Itoa(n)] = limit.String()
	}
}

// value returns the value of an expression: a string, an int64, a time.Duration, a core.Rate or a
// core.Limit. It returns nil for what no test needs.
func (c *code) value(e ast.Expr) any {
	switch e := e.(type) {
	case *ast.BasicLit:
		if n, err := strconv.ParseInt(e.Value, 0, 64); err == nil {
			return n
		}
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.Ident:
		if set := c.set[e.Name]; set != nil {
			delete(c.set, e.Name) // another variable of its name may be part of it
			defer func() { c.set[e.Name] = set }()
			return c.value(set)
		}
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		if d, ok := units[e.Sel.Name]; ok {
			return d
		}
	case *ast.BinaryExpr:
		n, ok := c.value(e.X).(int64)
		d, also := c.value(e.Y).(time.Duration)
		if ok && also && e.Op == token.MUL {
			return time.Duration(n) * d
		}
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok {
			var args []any
			for _, a := range e.Args {
				args = append(args, c.value(a))
			}
			return call(f.Sel.Name, args)
		}
	}
	return nil
}

// call returns what a function of core, time or cmp returns.
func call(name string, args []any) any {
	var number, second int64
	var rate core.Rate
	var lasting time.Duration
	text := ""
	for i, a := range args {
		switch v := a.(type) {
		case int64:
			if i == 0 {
				number = v
			} else {
				second = v
			}
		case core.Rate:
			rate = v
		case time.Duration:
			lasting = v
		case string:
			text = v
		}
	}
	switch name {
	case "Per":
		return core.Per(number, lasting)
	case "PerSecond":
		return core.PerSecond(number)
	case "PerMinute":
		return core.PerMinute(number)
	case "PerHour":
		return core.PerHour(number)
	case "PerDay":
		return core.PerDay(number)
	case "TokenBucket":
		return core.TokenBucket(rate, second)
	case "LeakyQueue":
		return core.LeakyQueue(rate, second)
	case "FixedWindow":
		return core.FixedWindow(rate)
	case "SlidingWindow":
		return core.SlidingWindow(rate)
	case "AnchoredWindow":
		return core.AnchoredWindow(rate)
	case "Ban":
		return core.Ban(rate, lasting)
	case "Concurrent":
		return core.Concurrent(number)
	case "Or":
		return text
	case "ParseLimit":
		if limit, err := core.ParseLimit(text); err == nil {
			return limit
		}
	case "ParseDuration":
		if d, err := time.ParseDuration(text); err == nil {
			return d
		}
	}
	return nil
}
