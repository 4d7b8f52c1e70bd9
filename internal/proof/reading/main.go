// Reading writes the tables of docs/reading.md: the functions of the library that one request
// calls, in order, with a limit in memory and with one in Redis. Run it in the root of the
// repository, where redis-server is installed:
//
//	go run ./internal/proof/reading
//
// It builds copies of the library in which each function notes that it is called.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
)

const document = "docs/reading.md"

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "reading")
	if err != nil {
		log.Fatal(err)
	}
	err = write(dir)
	if err := os.RemoveAll(dir); err != nil {
		log.Print(err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// write puts tables of now into the document.
func write(dir string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	t, err := build(exec.Command, root, dir)
	if err != nil {
		return err
	}
	memory, err := t.table(exec.Command)
	if err != nil {
		return err
	}
	address, end, err := startRedis(exec.Command)
	if err != nil {
		return err
	}
	defer end()
	redis, err := t.table(exec.Command, address)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	for name, table := range map[string]string{"memory": memory, "Redis": redis} {
		if text, err = replace(text, name, table); err != nil {
			return err
		}
	}
	return os.WriteFile(document, text, 0o644)
}

// between matches the table with a name in the document.
func between(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)(<!-- calls: ` + name + ` -->\n).*?(<!-- end -->)`)
}

func replace(text []byte, name, table string) ([]byte, error) {
	mark := between(name)
	if !mark.Match(text) {
		return nil, fmt.Errorf("%s: no place for the calls of %s", document, name)
	}
	return mark.ReplaceAllFunc(text, func(old []byte) []byte {
		parts := mark.FindSubmatch(old)
		return []byte(string(parts[1]) + table + string(parts[2]))
	}), nil
}

// table returns the calls of a request as rows.
func (t *traced) table(run command, args ...string) (string, error) {
	calls, all, err := t.calls(run, args...)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls of %d functions.\n\n| file | functions | says |\n|---|---|---|\n",
		all, len(calls))
	for _, s := range stops(calls) {
		b.WriteString(s.row() + "\n")
	}
	return b.String(), nil
}

// reference matches a name in brackets, as comments refer to it.
var reference = regexp.MustCompile(`(^|[\s(])\[([\w.*/]+)\]`)

func (s *stop) row() string {
	says := strings.ReplaceAll(reference.ReplaceAllString(s.says, "$1$2"), "|", "\\|")
	return fmt.Sprintf("| [%s](../%s) | `%s` | %s |",
		s.file, s.file, strings.Join(s.functions, "`, `"), says)
}

// startRedis starts a redis-server, and returns its address and what ends it.
func startRedis(run command) (address string, end func(), err error) {
	if address, err = freeport.Address(); err != nil {
		return "", nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, err
	}
	server := run("redis-server", "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	end = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	for range 1000 {
		var c net.Conn
		if c, err = net.Dial("tcp", address); err == nil {
			return address, end, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	end()
	return "", nil, fmt.Errorf("redis-server does not listen: %w", err)
}
