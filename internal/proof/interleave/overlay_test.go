package interleave_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

const (
	root  = "../../.."
	proof = "github.com/weir-go/weir/internal/proof/interleave"
)

// shims are the packages that copies import, by what they replace.
var shims = map[string]string{
	"sync":         proof + "/shim/sync",
	"sync/atomic":  proof + "/shim/atomic",
	"hash/maphash": proof + "/shim/maphash",
}

// edits change the copies. An old text occurs once in its file.
var edits = []struct {
	file, old, new string
}{
	{file: "internal/proof/interleave/built_test.go", old: "built = false", new: "built = true"},
	// Limits retire when three are known, in the order of their ids, since that of a map varies.
	{file: "memory/limits.go", old: "const maxLimits = 1<<16 - 1", new: "const maxLimits = 3"},
	{file: "memory/limits.go", old: "for key, limit := range c.known {\n\t\tif !inUse",
		new: "for id := range uint16(maxLimits + 1) { for key, limit := range c.known {\n" +
			"\t\tif limit.id == id && !inUse"},
	{file: "memory/limits.go", old: "}\n\tclear(c.scopes)", new: "}}\n\tclear(c.scopes)"},

	// A lease cache has the clock, the timers and the goroutines of interleave.
	{file: "remote/lease_supply.go", old: "time.Now()", new: "interleave.Now()"},
	{file: "remote/lease_block.go", old: "time.Now()", new: "interleave.Now()"},
	{file: "remote/lease_block.go", old: "*time.Timer", new: "*interleave.Timer"},
	{file: "remote/lease_supply.go", old: "time.AfterFunc(", new: "interleave.AfterFunc("},
	{file: "remote/lease_table.go",
		old: "go t.supply.request(set, demand, l, terms, k, ch.Lasts, demand.resets)",
		new: "lasts, resets := ch.Lasts, demand.resets\n" +
			"interleave.Go(func() { t.supply.request(set, demand, l, terms, k, lasts, resets) })"},

	// It matters who gets a record from the pool.
	{file: "core/ledger.go", old: "records sync.Pool ", new: "records sync.SharedPool "},

	// see mistakes
	{file: "memory/memory.go",
		old: "sh.mu.Lock()\n\tif limit.retired.Load() || limit.Held {\n\t\tsh.mu.Unlock()",
		new: `if !interleave.Planted("no lock") { sh.mu.Lock() }
	if limit.retired.Load() && !interleave.Planted("retired limit") || limit.Held {
		if !interleave.Planted("no lock") { sh.mu.Unlock() }`},
	{file: "memory/memory.go", old: "limit, n, now, value, d)\n\t\tsh.mu.Unlock()", new: `limit, n, now, value, d)
		if !interleave.Planted("no lock") { sh.mu.Unlock() }`},
	{file: "memory/memory.go", old: "sh.mu.Unlock()\n\t\tlimit.Describe",
		new: `if !interleave.Planted("no lock") { sh.mu.Unlock() }
		limit.Describe`},
	{file: "memory/shard.go", old: "displaced, n, now, value)\n\td.Ticket", new: `displaced, n, now, value)
	if interleave.Planted("two steps") { sh.mu.Unlock(); sh.mu.Lock() }
	d.Ticket`},
	{file: "memory/memory.go",
		old: "sh.mu.Lock()\n\tdefer sh.mu.Unlock()\n\tif e := sh.table.find(hash); e",
		new: `e := (*entry)(nil)
	if interleave.Planted("look before lock") { e = sh.table.find(hash) }
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !interleave.Planted("look before lock") { e = sh.table.find(hash) }
	if e`},
	{file: "memory/memory.go", old: "if limit.retired.Load() {\n\t\t\tsh.mu",
		new: `if limit.retired.Load() && !interleave.Planted("settle under a retired limit") {
			sh.mu`},
	{file: "memory/shard.go", old: "!entry.knows(e.Ticket)",
		new: `!entry.knows(e.Ticket) && !interleave.Planted("refund of another state")`},
	{file: "remote/lease_block.go", old: "b.lasting(now) <= 0 {\n\t\treturn false",
		new: `b.lasting(now) <= 0 && !interleave.Planted("spend after the end") {
		return false`},
	{file: "remote/lease_block.go", old: "if b.units.CompareAndSwap(units, units-n) {",
		new: `if interleave.Planted("spend in two steps") {
			b.units.Store(units - n)
			return true
		}
		if b.units.CompareAndSwap(units, units-n) {`},
	{file: "remote/lease_block.go", old: "return max(0, b.units.Swap(math.MinInt64))",
		new: `if interleave.Planted("close in two steps") {
			left := b.units.Load()
			b.units.Store(math.MinInt64)
			return max(0, left)
		}
		return max(0, b.units.Swap(math.MinInt64))`},
	{file: "remote/lease_supply.go", old: "void = demand.resets != resets ||",
		new: `void = demand.resets != resets && !interleave.Planted("keep what was reset") ||`},
	{file: "core/ledger.go", old: "q.generation != generation || q.state != from",
		new: `q.generation != generation && !interleave.Planted("stale end") || q.state != from`},
	{file: "memory/group.go", old: "last := -1\n", new: `last := -1
	if interleave.Planted("locks in any order") {
		for i := range g.parts { g.memory.shardOf(g.parts[i].hash).mu.Lock() }
		return
	}
`},
}

// build builds this test from copies of the library, and returns its path.
func build(t *testing.T, args ...string) string {
	t.Helper()
	testrun.DependsOnSource(t, root)
	goCommand := testrun.Program(t, "go")
	dir := t.TempDir()
	replaced := make(map[string]string)
	copyTo := func(file string, text []byte) {
		from, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		replaced[from] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(replaced[from], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edited := 0
	for _, pattern := range []string{
		"memory/*.go", "remote/lease*.go", "internal/ground/keyhash/keyhash.go", "core/ledger.go",
		"internal/proof/interleave/built_test.go",
	} {
		files, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, path := range files {
			file, _ := filepath.Rel(root, path)
			file = filepath.ToSlash(file)
			if strings.HasSuffix(file, "_test.go") && pattern != file {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range edits {
				if e.file != file {
					continue
				}
				if n := strings.Count(string(text), e.old); n != 1 {
					t.Fatalf("%s has the text %q %d times: correct the list of edits", file, e.old, n)
				}
				text = []byte(strings.ReplaceAll(string(text), e.old, e.new))
				edited++
			}
			copyTo(file, shimmed(t, path, text))
		}
	}
	if edited != len(edits) {
		t.Fatalf("%d of %d edits were made", edited, len(edits))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "interleave.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"test", "-c", "-vet=off", "-overlay", list, "-o", binary}, args...)
	if out, err := testrun.Command(t, goCommand, append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", args, err, out)
	}
	return binary
}

// shimmed returns a file of the library that imports shims.
func shimmed(t *testing.T, path string, text []byte) []byte {
	t.Helper()
	if bytes.Contains(text, []byte("interleave.")) {
		text = bytes.Replace(text, []byte("\n\n"), fmt.Appendf(nil, "\n\nimport %q\n\n", proof), 1)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range file.Imports {
		name, _ := strconv.Unquote(imported.Path.Value)
		if shim := shims[name]; shim != "" {
			imported.Path.Value = strconv.Quote(shim)
		}
	}
	var out bytes.Buffer
	if err := printer.Fprint(&out, set, file); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
