package readme

import (
	"go/ast"
	doccomment "go/doc/comment"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// copied is code that people copy: a program, a block of a guide, the code of a package comment, or
// the example of a whole package.
type copied struct {
	name    string
	program bool
	files   []*ast.File
}

// uncheckedKeys says where a credential is a key without keyfuncs.Known, and why that is right.
var uncheckedKeys = map[string]string{
	"docs/migrating.md":       "the gateway sets both header fields",
	"docs/rules.md":           "the authentication sets X-Customer; hasPlan checks the API key",
	"examples/layers":         "hasPlan checks it",
	"examples/plans":          "identified checks it",
	"examples/systems/stripe": "authenticated checks it",
	"keyfuncs":                "the example shows what each function returns",
	"policy":                  "the authentication sets X-User",
}

// TestNoCodeThatPeopleCopyCanBeAttackedSo has a test for each way in which one could. Tests in examples
// attack the programs while they run.
func TestNoCodeThatPeopleCopyCanBeAttackedSo(t *testing.T) {
	programs, others := 0, 0
	used := make(map[string]bool)
	for _, c := range allCopied(t) {
		if c.program {
			programs++
		} else {
			others++
		}
		for _, fault := range c.faults() {
			if _, known := uncheckedKeys[c.name]; known && fault == uncheckedKey {
				used[c.name] = true
				continue
			}
			t.Errorf("%s: %s", c.name, fault)
		}
	}
	if programs < 24 || others < 100 {
		t.Errorf("found %d programs and %d other pieces of code", programs, others)
	}
	for name, why := range uncheckedKeys {
		if !used[name] {
			t.Errorf("%s has no such key, so it needs no reason (%s)", name, why)
		}
	}
}

const (
	noTimeouts     = "http.ListenAndServe and http.Serve have no timeouts: use an http.Server"
	noDeadlines    = "an http.Server without ReadTimeout, WriteTimeout and IdleTimeout waits for clients for ever"
	noShutdown     = "it ends without Shutdown, in the middle of requests"
	noBounds       = "a grpc.Server without MaxRecvMsgSize, MaxConcurrentStreams and KeepaliveParams is not bounded"
	noHeaderBounds = "a program with a grpc.Server sets MaxHeaderListSize and ConnectionTimeout"
	noTap          = "interceptors of grpcmw never count what cannot be decoded: set InTapHandle"
	noReadMax      = "handlers of Connect without connect.WithReadMaxBytes decompress as much as a client likes"
	noFlood        = "interceptors of connectmw never count what cannot be decoded: put a limiter of nethttp outside"
	uncheckedKey   = "a client invents credentials, each with a fresh budget: use keyfuncs.Known"
	comparison     = "comparing secrets tells their length or beginning: compare digests by subtle.ConstantTimeCompare"
	noClosedLogIn  = "a rule for log-ins needs OnFailure: core.FailClosed"
	shownLogIns    = "what is left of a name's log-ins shows who has failed: use headers.OnDenial or headers.Omit"
	anyHost        = "pages for operators answer under any name, so a page in a browser can point one at them: check Host"
	openPolicy     = "a rule for log-ins needs on-failure: closed"
	crossSite      = "other sites post its log-in form: use http.NewCrossOriginProtection"
)

// Policies are copied, too.
func TestNoPolicyThatPeopleCopyLeavesLogInsOpen(t *testing.T) {
	found := 0
	check := func(name, text string) {
		for _, rule := range strings.Split(text, "- name: ")[1:] {
			if !strings.Contains(rule, "match: POST /login") {
				continue
			}
			if found++; !strings.Contains(rule, "on-failure: closed") {
				t.Errorf("%s: %s: %s", name, strings.TrimSpace(strings.SplitN(rule, "\n", 2)[0]), openPolicy)
			}
		}
	}
	walk(t, func(name string) {
		if strings.HasPrefix(name, "examples/") {
			check(name, strings.Join(lines(t, name), "\n"))
		}
	}, ".yaml")
	for _, guide := range guides(t) {
		blocks, _ := split(t, guide)
		for _, b := range blocks {
			if b.info == "yaml" {
				check(guide, b.text)
			}
		}
	}
	if found < 4 {
		t.Errorf("found %d rules for log-ins", found)
	}
}

// faults returns what can be done to programs with this code.
func (c *copied) faults() (faults []string) {
	add := func(fault string, is bool) {
		if is && !slices.Contains(faults, fault) {
			faults = append(faults, fault)
		}
	}
	uses := func(names ...string) bool {
		for _, name := range names {
			if !c.uses(name) {
				return false
			}
		}
		return true
	}
	servesHTTP, servesCalls := false, uses("grpc.NewServer") // envoy.NewServer has all bounds
	reads := c.readsForm()
	c.inspect(func(n ast.Node, parents []ast.Node) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			name := nameOf(n)
			add(noTimeouts, strings.HasPrefix(name, "http.ListenAndServe") ||
				strings.HasPrefix(name, "http.Serve") && isCalled(n, parents))
			add(uncheckedKey, slices.Contains(credentials, name) && !isWithin("keyfuncs.Known", parents))
		case *ast.CallExpr:
			isHandler := connectHandler.MatchString(nameOf(n.Fun))
			add(noReadMax, isHandler && !uses("connect.WithReadMaxBytes"))
			add(noFlood, isHandler && c.program && !uses("nethttp.New") && !uses("nethttp.MustNew"))
			add(comparison, nameOf(n.Fun) == "subtle.ConstantTimeCompare" && !slices.ContainsFunc(n.Args, isSlice))
		case *ast.BinaryExpr:
			add(comparison, (n.Op == token.EQL || n.Op == token.NEQ) && (isSecret(n.X) || isSecret(n.Y)))
		case *ast.CompositeLit:
			if nameOf(n.Type) == "http.Server" {
				servesHTTP = true
				add(noDeadlines, field(n, "ReadTimeout") == nil || field(n, "WriteTimeout") == nil ||
					field(n, "IdleTimeout") == nil)
			}
			byName := slices.ContainsFunc(reads, func(name string) bool { return mentions(field(n, "Key"), name) })
			add(noClosedLogIn, isLogIn(n, byName) && nameOf(field(n, "OnFailure")) != "core.FailClosed")
			add(shownLogIns, byName && !uses("headers.OnDenial") && !uses("headers.Omit"))
		case *ast.BasicLit:
			add(crossSite, c.program && logInRoute.MatchString(n.Value) && !uses("http.NewCrossOriginProtection"))
			add(anyHost, c.program && n.Value == `"ADMIN"` && !uses("http.StatusMisdirectedRequest"))
		}
	})
	add(noShutdown, c.program && servesHTTP && !c.calls("Shutdown") || c.program && servesCalls && !c.calls("Stop"))
	add(noBounds, servesCalls && !uses("grpc.MaxRecvMsgSize", "grpc.MaxConcurrentStreams", "grpc.KeepaliveParams"))
	add(noHeaderBounds, c.program && servesCalls && !uses("grpc.MaxHeaderListSize", "grpc.ConnectionTimeout"))
	add(noTap, servesCalls && !uses("grpc.InTapHandle"))
	return faults
}

var (
	// credentials are the key functions of what a client may invent.
	credentials = []string{
		"keyfuncs.APIKey", "keyfuncs.BearerToken", "keyfuncs.BasicAuthUser", "keyfuncs.Cookie", "keyfuncs.Header",
	}
	connectHandler = regexp.MustCompile(`^\w*connect\.New\w*Handler$`)
	logInRoute     = regexp.MustCompile(`/log-?in"$`)
	logInName      = regexp.MustCompile(`^"(log-?in|failures?|failed log-ins|ban|user|name)"$`)
	secretName     = regexp.MustCompile(`(?i)"(password|secret|token)"`)
)

// isLogIn reports whether n is a rule that limits log-ins. byName: it counts by what a form says.
func isLogIn(n *ast.CompositeLit, byName bool) bool {
	name, ok := field(n, "Name").(*ast.BasicLit)
	return ok && field(n, "Key") != nil && (byName || logInName.MatchString(name.Value))
}

// isSecret reports whether e is what a form says is a secret.
func isSecret(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 || !strings.HasSuffix(nameOf(call.Fun), "FormValue") {
		return false
	}
	name, ok := call.Args[0].(*ast.BasicLit)
	return ok && secretName.MatchString(name.Value)
}

// isSlice reports whether e slices an array, which has one length.
func isSlice(e ast.Expr) bool {
	slice, ok := e.(*ast.SliceExpr)
	return ok && slice.Low == nil && slice.High == nil
}

// readsForm returns the names of the functions that return what a form says.
func (c *copied) readsForm() (names []string) {
	for _, file := range c.files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Type.Results != nil && len(f.Type.Results.List) == 2 && mentions(f.Body, "PostFormValue") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// inspect visits each node with those that it is in, the innermost last.
func (c *copied) inspect(visit func(n ast.Node, parents []ast.Node)) {
	for _, file := range c.files {
		var parents []ast.Node
		ast.Inspect(file, func(n ast.Node) bool {
			if n == nil {
				parents = parents[:len(parents)-1]
				return true
			}
			visit(n, parents)
			parents = append(parents, n)
			return true
		})
	}
}

// uses reports whether the code has a name of a package, such as http.Get.
func (c *copied) uses(name string) (uses bool) {
	c.inspect(func(n ast.Node, _ []ast.Node) {
		s, ok := n.(*ast.SelectorExpr)
		uses = uses || ok && nameOf(s) == name
	})
	return uses
}

// calls reports whether the code calls a method of this name.
func (c *copied) calls(method string) (calls bool) {
	c.inspect(func(n ast.Node, _ []ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		calls = calls || ok && s.Sel.Name == method
	})
	return calls
}

// nameOf returns the text of an identifier or of one of a package; "" for anything else.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
		return "." + e.Sel.Name
	}
	return ""
}

// field returns the value of a field in a literal; nil if it is not there.
func field(n *ast.CompositeLit, name string) ast.Expr {
	for _, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && nameOf(kv.Key) == name {
			return kv.Value
		}
	}
	return nil
}

// mentions reports whether n has an identifier.
func mentions(n ast.Node, name string) (has bool) {
	if n == nil {
		return false
	}
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		has = has || ok && id.Name == name
		return true
	})
	return has
}

// isCalled reports whether n is the function of a call.
func isCalled(n ast.Expr, parents []ast.Node) bool {
	if len(parents) == 0 {
		return false
	}
	call, ok := parents[len(parents)-1].(*ast.CallExpr)
	return ok && call.Fun == n
}

// isWithin reports whether one of the parents calls a function.
func isWithin(function string, parents []ast.Node) bool {
	return slices.ContainsFunc(parents, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && nameOf(call.Fun) == function
	})
}

// allCopied returns all code that people copy.
func allCopied(t *testing.T) []*copied {
	t.Helper()
	set := token.NewFileSet()
	byName := make(map[string]*copied)
	var all []*copied
	add := func(name string, program bool, file *ast.File) {
		c := byName[name]
		if c == nil {
			c = &copied{name: name, program: program}
			byName[name], all = c, append(all, c)
		}
		c.files = append(c.files, file)
	}
	parse := func(name string, src any, mode parser.Mode) *ast.File {
		t.Helper()
		file, err := parser.ParseFile(set, filepath.Join(root, name), src, mode|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	walk(t, func(name string) {
		switch {
		case strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, ".connect.go") ||
			strings.HasPrefix(name, "benchmarks/"):
		case strings.HasPrefix(name, "examples/"):
			if !strings.HasSuffix(name, "_test.go") {
				add(path.Dir(name), true, parse(name, nil, 0))
			}
		case strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/"):
		case path.Base(name) == "example_test.go":
			add(path.Dir(name), false, parse(name, nil, 0))
		case !strings.HasSuffix(name, "_test.go"):
			for i, code := range codeOf(parse(name, nil, parser.PackageClauseOnly|parser.ParseComments).Doc) {
				if file := parseExcerpt(set, code); file != nil {
					all = append(all, &copied{name: name + ", code " + strconv.Itoa(i+1), files: []*ast.File{file}})
				}
			}
		}
	}, ".go")
	for _, guide := range guides(t) {
		blocks, _ := split(t, guide)
		for _, b := range blocks {
			if b.info == "go" {
				file, _ := source(b.text, b.path, b.line)
				if isExcerpt(b) {
					continue
				}
				all = append(all, &copied{name: guide, files: []*ast.File{parse(guide, file, 0)}})
			}
		}
	}
	return all
}

// codeOf returns the code in a comment.
func codeOf(doc *ast.CommentGroup) (code []string) {
	var p doccomment.Parser
	for _, block := range p.Parse(doc.Text()).Content {
		if c, ok := block.(*doccomment.Code); ok {
			code = append(code, c.Text)
		}
	}
	return code
}

// parseExcerpt parses statements or declarations; nil: they are neither.
func parseExcerpt(set *token.FileSet, code string) *ast.File {
	for _, text := range []string{"package p\nfunc _() {\n" + code + "\n}\n", "package p\n" + code} {
		if file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution); err == nil {
			return file
		}
	}
	return nil
}
