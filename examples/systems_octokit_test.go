package examples

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// octokit installs GitHub's own client, and returns what starts it and what it prints.
func octokit(t *testing.T) func(url, token string, requests int) io.Reader {
	t.Helper()
	testrun.FullOnly(t, "GitHub's client, which npm installs")
	dir := t.TempDir()
	script, err := os.ReadFile("octokit.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "octokit.mjs"), script, 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	install := testrun.CommandContext(ctx, t, "npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", dir,
		"@octokit/core@7.0.8", "@octokit/plugin-throttling@11.0.5")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	return func(url, token string, requests int) io.Reader {
		t.Helper()
		cmd := testrun.Command(t, "node", "octokit.mjs", url, token, fmt.Sprint(requests))
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		return out
	}
}

func TestTheClientOfGitHubObeysTheHour(t *testing.T) {
	run := octokit(t)
	lines, err := io.ReadAll(run(start(t, "systems/github"), "", 61))
	var wait, status int
	if _, scanErr := fmt.Sscanf(string(lines), "primary %d\nlast %d\n", &wait, &status); err != nil ||
		scanErr != nil || wait < 3500 || wait > 3602 || status != 403 {
		t.Errorf("after 61 requests the client says %q (%v, %v), want that the hour is used up", lines, err, scanErr)
	}
}

// The client is denied because 100 requests run. It waits for Retry-After, and is allowed once
// they have ended.
func TestTheClientOfGitHubObeysASecondaryLimit(t *testing.T) {
	run := octokit(t)
	addr := freeAddr(t)
	startRedisServer(t, addr)
	url, redis := start(t, "systems/github", "REDIS_URL=redis://"+addr), redisOf(t, addr, "github")
	limit := limits.Concurrent(100)
	var held []backends.Ending
	for _, n := range []int64{64, 36} {
		taken := use(t, redis,
			backends.Charge{Scope: "concurrent", Key: "0:ann", Limit: limit, Cost: n, Lasts: time.Minute})
		held = append(held,
			backends.Ending{Scope: "concurrent", Key: "0:ann", Limit: limit, Taken: n, Ticket: taken.Ticket})
	}
	out := bufio.NewReader(run(url, "ghp-ann", 1))
	if line, err := out.ReadString('\n'); line != "secondary 1\n" {
		t.Fatalf("the client says %q (%v), want that it is denied for a second", line, err)
	}
	if err := backends.Settle(context.Background(), redis, held, make([]limits.Settlement, len(held))); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if !strings.HasSuffix(string(rest), "last 200\n") {
		t.Errorf("after the end of the other requests the client says %q (%v)", rest, err)
	}
}
