//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
)

// asUser makes command run as a user that is not root, since Postgres refuses root, and gives that
// user the directory.
func asUser(t *testing.T, command *exec.Cmd, dir string) {
	if os.Geteuid() != 0 {
		return
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, err := strconv.Atoi(nobody.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(nobody.Gid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	command.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	}
}

// startPostgres starts a server for the test, and returns the URL of its database.
func startPostgres(t *testing.T) string {
	dir, err := os.MkdirTemp("", "plans") // a socket's path is short, and the names of tests are not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	initialize := testrun.Command(t, "initdb", "-D", data, "-U", "shop", "-A", "trust", "-N")
	asUser(t, initialize, dir)
	initialize.Dir = dir
	if output, err := initialize.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	server := testrun.Command(t, "postgres", "-D", data, "-k", dir, "-c", "listen_addresses=",
		"-c", "fsync=off")
	asUser(t, server, dir)
	server.Dir = dir
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGINT) // ends connections, and then the server
		for lines.Scan() {
		}
		server.Wait()
	})
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready to accept connections") {
			return "postgres:///postgres?user=shop&host=" + dir
		}
	}
	t.Fatal("Postgres ended before it was ready")
	return ""
}

// Postgres has the clock of this machine, so the cache is told to look again instead of waiting.
func TestPostgresHasThePlans(t *testing.T) {
	db, err := open(t.Context(), startPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	customers, err := newCache(db)
	if err != nil {
		t.Fatal(err)
	}
	defer customers.Close()
	handler, err := limited(customers, ok)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t, db, customers, handler}
	s.ask("k-acme", 200, free)
	s.execute(`UPDATE customers SET plan = 'pro' WHERE name = 'acme'`)
	customers.Expire(keyfuncs.Digest("k-acme"))
	s.ask("k-acme", 200, pro)
	s.ask("k-invented", 200, `"anonymous";q=5;`)
	if before := customers.State(); before.Failures != 0 || before.Lookups != 3 {
		t.Errorf("%+v, want 3 look-ups: one for each answer that was not cached", before)
	}
	db.Close() // no more look-ups: what was found stays
	s.ask("k-acme", 200, pro)
	if _, err := customers.Find(t.Context(), keyfuncs.Digest("k-other")); err != nil {
		t.Errorf("a look-up that fails fails the request: %v", err)
	}
	if state := customers.State(); state.Failures == 0 {
		t.Errorf("%+v, want a failure", state)
	}
}
