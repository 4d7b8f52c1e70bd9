package world

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// defects are mistakes that weir has had, and three that it could have: what a file says, what it
// says then, and the test whose worlds show it.
var defects = []struct{ name, by, file, now, then string }{
	{
		"ends are looked for after the denial", "TestSeeds$", "core/ruleset.go",
		"	own := set.ownEndings(charges)\n	err := call.Take(ctx, set.backend, charges, decisions)\n",
		"	err := call.Take(ctx, set.backend, charges, decisions)\n	own := set.ownEndings(charges)\n",
	},
	{
		"a refund is sent twice", "TestSeeds$", "internal/ground/endings/endings.go",
		"	c.err = call.Settle(ctx, c.batch[0].to.backend, all, c.results)\n",
		"	call.Settle(ctx, c.batch[0].to.backend, all, make([]limits.Settlement, len(all)))\n	c.err = call.Settle(ctx, " +
			"c.batch[0].to.backend, all, c.results)\n",
	},
	{
		"one breaker for all masters", "TestSeeds$", "remote/breaker.go",
		"errors.As(err, &spares) && spares.SparesBackend()", "errors.As(err, &spares) && false",
	},
	{
		"a connection is thrown away after the budget", "FarAway", "redisbackend/internal/line/line.go",
		"l.callCtxEnds = now.Add(timeout + CallTimeout/8)", "l.callCtxEnds = now.Add(50 * time.Millisecond)",
	},
	{
		"a fallback for each limiter", "TestSeeds$", "internal/ground/perbackend/perbackend.go",
		"	if at == nil {\n		return s.New()", "	if at != nil {\n		return s.New()",
	},
	{
		"a clock stands still after a step back, however long", "TestSeeds$", "redisbackend/convert.lua",
		"if s.at - now > longest then", "if false then",
	},
	{
		"transient denials are remembered", "NotRemembered", "remote/denialcache.go",
		"d.Allowed || d.Transient || c.mayBeLifted(ch)", "d.Allowed || c.mayBeLifted(ch)",
	},
	{
		"a taking whose reply was lost is repeated", "AskedForAgain", "redisbackend/internal/line/batches.go",
		"NoRetry() bool { return true }", "NoRetry() bool { return false }",
	},
	{
		"a block of a lease is spent after its time", "TestSeeds$", "remote/lease_block.go",
		"int64 { return b.spendFor - now.since(b.sent) }", "int64 { return b.spendFor - now.since(b.sent) + 1_000_000 }",
	},
	{
		"ends to all servers go in one call", "ASilentServer", "redisbackend/bare.go", "		return server\n",
		"		_ = server\n",
	},
	{
		"holds are kept through a step back", "StepBack", "redisbackend/concurrent.lua",
		"if others > over and work < 500 then", "if false then",
	},
	{
		"a fallback keeps units that were returned", "TestSeeds$", "core/ledger.go", "l.mirror(t, t.cost, 0)",
		"l.mirror(t, 0, 0)",
	},
	{
		"a fallback does not know what runs", "TestSeeds$", "core/ledger.go",
		"l.primary.memory == nil && !l.fallback().Remote()", "l.primary.memory != nil && !l.fallback().Remote()",
	},
	{
		"an end is reported twice", "TestSeeds$", "core/ledger.go",
		"t.final == t.cost && t.rule.finalCost != nil {", "t.rule.finalCost != nil {",
	},
}

// TestFormerDefectsAreFound plants each in a copy of its file, and lives through worlds until a
// law breaks, for a minute of processor time at most.
func TestFormerDefectsAreFound(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range defects { // in a short run, too: code moves
		if text, err := os.ReadFile(filepath.Join(root, d.file)); err != nil || strings.Count(string(text), d.now) != 1 {
			t.Fatalf("%s does not say once (%v):\n%s", d.file, err, d.now)
		}
	}
	testrun.FullOnly(t, "compiles a copy for each defect")
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			file, dir := filepath.Join(root, d.file), t.TempDir()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(dir, "copy.go")
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: copied}})
			if err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string]string{
				copied: strings.Replace(string(text), d.now, d.then, 1), filepath.Join(dir, "overlay.json"): string(overlay),
			} {
				if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			binary := filepath.Join(dir, "world.test")
			build := testrun.Command(t, "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o",
				binary, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for spent := time.Duration(0); spent < time.Minute; {
				run := testrun.Command(t, binary, "-test.run", d.by, "-test.timeout", "5m")
				run.Env = append(os.Environ(), "WEIR_FULL=") // 20 seconds
				out, err := run.CombinedOutput()
				spent += run.ProcessState.UserTime() + run.ProcessState.SystemTime()
				if err != nil && !strings.Contains(string(out), "-weir.seed") {
					t.Fatalf("no law is broken, but: %v\n%s", err, out)
				}
				if err != nil {
					t.Logf("found after %v:\n%s", spent, out)
					return
				}
			}
			t.Error("not found within a minute")
		})
	}
}
