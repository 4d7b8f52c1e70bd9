//go:build unix

package readme

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// run starts a command in the root of the repository, as the leader of a process
// group that the end of the test interrupts.
func run(t *testing.T, env []string, name string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := testrun.Command(t, name, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stuck := time.AfterFunc(time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer stuck.Stop()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		cmd.Wait()
	})
	return cmd, bufio.NewReader(stderr)
}

// serve runs an example by the command that is shown, and returns its address.
func serve(t *testing.T, command string) string {
	t.Helper()
	fields := strings.Fields(command)
	cmd, log := run(t, []string{"ADDR=127.0.0.1:0", "REDIS_URL="}, fields[0], fields[1:]...)
	stuck := time.AfterFunc(5*time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stuck.Stop()
	var said strings.Builder
	for {
		line, err := log.ReadString('\n')
		said.WriteString(line)
		if _, addr, ok := strings.Cut(strings.TrimSpace(line), "listening on "); ok {
			go io.Copy(io.Discard, log)
			return addr
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, said.String())
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// code returns the lines of a block without comments and pipes.
func code(b block) (commands []string) {
	for line := range strings.Lines(b.text) {
		line, _, _ = strings.Cut(line, " #")
		line, _, _ = strings.Cut(line, " | ")
		if line = strings.TrimSpace(line); line != "" {
			commands = append(commands, line)
		}
	}
	return commands
}

// TestCommandsWork runs every block of commands: one that has a test of its own in
// scripts as a whole, and the lines of the others one by one.
func TestCommandsWork(t *testing.T) {
	n := 0
	for _, path := range guides(t) {
		blocks, _ := split(t, path)
		for _, b := range blocks {
			if b.info != "sh" {
				continue
			}
			n++
			t.Run(path+":"+strconv.Itoa(b.line), func(t *testing.T) {
				for first, script := range scripts {
					if strings.HasPrefix(b.text, first) {
						script(t, b.text)
						return
					}
				}
				for _, command := range code(b) {
					single(t, command)
				}
			})
		}
	}
	if n < 6 {
		t.Errorf("found %d blocks of commands", n)
	}
}

// single runs one command.
func single(t *testing.T, command string) {
	fields := strings.Fields(command)
	switch {
	case command == "go test ./...": // which has come here
	case strings.HasPrefix(command, "go run ./examples/"):
		if !strings.HasSuffix(command, "/quickstart") {
			testrun.FullOnly(t, "examples have tests of their own")
		}
		conn, err := net.Dial("tcp", serve(t, command))
		if err != nil {
			t.Errorf("%s: %v", command, err)
			return
		}
		conn.Close()
	case command == "go -C examples/operations run . -load": // a module of its own, whose test runs it
		if !strings.Contains(strings.Join(lines(t, "examples/operations/operations_test.go"), "\n"), `begin(t, "-load")`) {
			t.Errorf("no test runs %q", command)
		}
	case command == "POLICY=reload/weir.yaml go -C examples/operations run ./reload": // its session is in its comment
	case command == "go -C examples/echo5 run .", command == "go -C examples/fiber run .",
		command == "go -C examples/grpc run .", command == "go -C examples/connect run .",
		command == "go -C examples/connect2 run .",
		command == "go -C examples/mcp run .", command == "go -C examples/systems/crawlers run .":
		testrun.FullOnly(t, "examples have tests of their own")
	case command == "go -C cmd/weir run . playground": // which serves until it is interrupted: its test does that
		if !strings.Contains(strings.Join(lines(t, "cmd/weir/playground_test.go"), "\n"), `"playground", "--listen"`) {
			t.Errorf("no test runs %q", command)
		}
	case strings.HasPrefix(command, "go -C cmd/weir "): // as from a clone
		testrun.FullOnly(t, "compiles another module")
		bash(t, "export GOFLAGS= GOBIN='"+t.TempDir()+"'\n"+command+"\n")
	case strings.HasPrefix(command, "go get "):
		out, err := testrun.Command(t, "go", "list", "-m").Output()
		if err != nil || strings.TrimSpace(string(out)) != fields[2] {
			t.Errorf("%s: the module is %s (%v)", command, out, err)
		}
	case strings.Contains(command, "go test ") && strings.HasPrefix(fields[len(fields)-1], "./"): // takes minutes
		testrun.FullOnly(t, "compiles tests again")
		pattern := "."
		for i, field := range fields {
			if field == "-run" && fields[i+1] != "'^$'" || field == "-bench" {
				pattern = strings.Trim(fields[i+1], "'")
			}
		}
		cmd := testrun.Command(t, "go", "test", "-list", pattern, fields[len(fields)-1])
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil ||
			!bytes.HasPrefix(out, []byte("Test")) && !bytes.HasPrefix(out, []byte("Benchmark")) {
			t.Errorf("%s: %v, these tests:\n%s", command, err, out)
		}
	default:
		t.Errorf("no test knows how to run %q: add a case to single, or a script to scripts", command)
	}
}

var statusCode = regexp.MustCompile(`\b[0-9]{3}\b`)

// scripts are tests of blocks, by how they start.
var scripts = map[string]func(t *testing.T, text string){
	"for i in $(seq 20); do\n": func(t *testing.T, text string) { // forged headers
		testrun.Program(t, "curl")
		text = strings.ReplaceAll(text, "localhost:8080", serve(t, "go run ./examples/quickstart"))
		ask(t, text, 20, 10, 10)
	},
	"go mod edit -require=": func(t *testing.T, text string) { // a program beside a clone
		testrun.FullOnly(t, "compiles another module")
		clone, err := filepath.Abs(root)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for name, content := range map[string]string{
			"go.mod":  "module example.com/shop\n\ngo 1.26.0\n",
			"main.go": "package main\n\nimport _ \"" + module + "/nethttp\"\n\nfunc main() {}\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(text, "=../weir ") {
			t.Errorf("it does not say where the clone is: %s", text)
		}
		bash(t, "export GOFLAGS=\ncd '"+dir+"'\n"+strings.ReplaceAll(text, "../weir", clone)+"go build -o /dev/null .\n")
	},
	"awk 'BEGIN": func(t *testing.T, text string) { // floods at the turns of windows
		testrun.FullOnly(t, "compiles another module")
		testrun.Program(t, "awk")
		out := bash(t, installWeir(t)+"cd '"+t.TempDir()+"'\n"+text)
		for _, most := range []string{"120 (200%)", "118 (197%)", "119 (198%)"} {
			if !strings.Contains(out, most) {
				t.Errorf("no algorithm admits %s:\n%s", most, out)
			}
		}
	},
	"page=http://127.0.0.1:8081\n": func(t *testing.T, text string) { // the operator's page without a browser
		testrun.FullOnly(t, "compiles another module")
		testrun.Program(t, "curl")
		_, log := run(t, []string{"ADDR=127.0.0.1:0", "ADMIN=127.0.0.1:0", "REDIS_URL=", "GOFLAGS="}, "go", "-C",
			"examples/operations", "run", ".")
		page := ""
		for page == "" {
			line, err := log.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			_, page, _ = strings.Cut(strings.TrimSpace(line), "operators: ")
		}
		go io.Copy(io.Discard, log)
		out := bash(t, strings.ReplaceAll(text, "http://127.0.0.1:8081", page))
		if strings.Contains(out, `"detail":`) || strings.Count(out, `{"Done":`) != 4 {
			t.Errorf("the page answers\n%s", out)
		}
	},
	"page=http://127.0.0.1:6070\n": func(t *testing.T, text string) { // overrides by programs
		testrun.FullOnly(t, "compiles another module")
		testrun.Program(t, "curl")
		path := filepath.Join(t.TempDir(), "weir.yaml")
		rules := "version: 1\nclient: {peer: true}\nrules:\n  - {name: per-client, key: address, limit: 1/day}\n"
		if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		_, log := run(t, []string{"GOFLAGS="}, "go", "-C", "cmd/weir", "run", ".", "serve", "--operator-changes",
			"--check", "127.0.0.1:0", "--grpc", "", "--operator", "127.0.0.1:0", path)
		page := ""
		for page == "" {
			line, err := log.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			_, page, _ = strings.Cut(strings.TrimSpace(line), "for=operator address=")
		}
		go io.Copy(io.Discard, log)
		out := bash(t, strings.ReplaceAll(text, "127.0.0.1:6070", page))
		if strings.Contains(out, `"detail":`) || strings.Count(out, `"Limit":"sliding-window 500/1m"`) != 2 ||
			strings.Count(out, `"Mode":"shadow"`) != 2 {
			t.Errorf("the page answers\n%s", out)
		}
	},
	"go build -o /tmp/weir-redis ": func(t *testing.T, text string) { // two instances
		testrun.FullOnly(t, "programs with Redis")
		testrun.Program(t, "curl")
		testrun.Program(t, "redis-server")
		server := freeAddr(t)
		_, port, _ := net.SplitHostPort(server)
		listens := func(port string) string {
			return "until (exec 3<>/dev/tcp/127.0.0.1/" + port + ") 2>/dev/null; do sleep 0.1; done\n"
		}
		_, log := run(t, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
		go io.Copy(io.Discard, log)
		var up strings.Builder // waits instead of sleeping
		for _, shown := range []string{"8081", "8082"} {
			_, port, _ := net.SplitHostPort(freeAddr(t))
			up.WriteString(listens(port))
			text = strings.ReplaceAll(text, shown, port)
		}
		text = strings.Replace(text, "sleep 1\n", up.String(), 1)
		text = strings.ReplaceAll(text, "/tmp/weir-redis", filepath.Join(t.TempDir(), "weir-redis"))
		ask(t, listens(port)+"export REDIS_URL=redis://"+server+"\n"+text, 30, 20, 100)
	},
}

// ask runs a script that prints the statuses of its requests: the first are allowed,
// and further ones as they fall due, so many a minute.
func ask(t *testing.T, script string, requests, first, perMinute int) {
	t.Helper()
	start := time.Now()
	out := bash(t, script)
	most := first + int(time.Since(start).Minutes()*float64(perMinute)) + 1
	allowed, statuses := 0, statusCode.FindAllString(out, -1)
	for i, status := range statuses {
		if status == "200" {
			allowed++
		} else if status != "429" || i < first {
			t.Errorf("request %d: status %s", i+1, status)
		}
	}
	if len(statuses) != requests || allowed > most {
		t.Errorf("%d of %d requests were allowed, want %d at most of %d:\n%s", allowed, len(statuses), most, requests, out)
	}
}

// bash runs a script, which must succeed and end, and returns what it printed.
func bash(t *testing.T, script string) string {
	t.Helper()
	testrun.Program(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := testrun.CommandContext(ctx, t, "bash", "-e", "-c", script)
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var files [2]*os.File // a pipe would be held open by programs left running
	for i := range files {
		file, err := os.CreateTemp(t.TempDir(), "out")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files[i] = file
	}
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	err := cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left running
	}
	out, _ := os.ReadFile(files[0].Name())
	if err != nil {
		said, _ := os.ReadFile(files[1].Name())
		t.Fatalf("%v\n%s\n%s%s", err, script, out, said)
	}
	return string(out)
}

var (
	number = regexp.MustCompile(`HTTP/1\.1 [0-9]+|"status":[0-9]+|\b[qw]=[0-9]+|[0-9]+`)
	date   = regexp.MustCompile(`(?m)^Date: .*$`)
)

// same is what two answers to one request have in common.
func same(answer string) string {
	answer = strings.TrimSpace(strings.ReplaceAll(answer, "\r", ""))
	answer = date.ReplaceAllString(answer, "Date:")
	answer = number.ReplaceAllStringFunc(answer, func(n string) string {
		if n[0] >= '0' && n[0] <= '9' { // a wait, or what is left
			return "0"
		}
		return n
	})
	return strings.Replace(answer, "in 0 second.", "in 0 seconds.", 1)
}

// lengthOf returns the length that an answer tells, and that of its body with the end of the line.
func lengthOf(answer string) (told, has string) {
	head, body, _ := strings.Cut(answer, "\n\n")
	_, told, _ = strings.Cut(head, "\nContent-Length: ")
	told, _, _ = strings.Cut(told, "\n")
	return told, strconv.Itoa(len(body) + 1)
}

// TestAnswersAreThoseShown asks the quickstart what blocks of the console ask, until
// it answers as they say, numbers and dates aside.
func TestAnswersAreThoseShown(t *testing.T) {
	testrun.Program(t, "curl")
	n := 0
	for _, path := range guides(t) {
		blocks, _ := split(t, path)
		for _, b := range blocks {
			if b.info != "console" || isOfCommand(b) {
				continue
			}
			url := "http://" + serve(t, "go run ./examples/quickstart")
			for _, session := range strings.Split("\n"+b.text, "\n$ ")[1:] {
				n++
				command, want, _ := strings.Cut(session, "\n")
				want = strings.TrimSpace(want)
				if told, has := lengthOf(want); told != "" && told != has {
					t.Errorf("%s:%d: Content-Length is %s, and the body has %s bytes", path, b.line, told, has)
				}
				if !strings.HasPrefix(command, "curl ") || !strings.Contains(command, "http://localhost:8080") {
					t.Errorf("%s:%d: no test knows how to run %q", path, b.line, command)
					continue
				}
				command = strings.Replace(strings.Replace(command, "curl ", "curl -s ", 1), "http://localhost:8080", url, 1)
				got := ""
				for range 40 {
					if got = bash(t, command); same(got) == same(want) {
						break
					}
				}
				if same(got) != same(want) {
					t.Errorf("%s:%d: %s\ngot\n%s\nwant, but for numbers and dates\n%s", path, b.line, command, got, want)
				}
			}
		}
	}
	if n < 3 {
		t.Errorf("found %d commands", n)
	}
}
