//go:build unix

package readme

import (
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// programs returns the paths of the programs below examples, relative to the root.
func programs(t *testing.T) (paths []string) {
	t.Helper()
	walk(t, func(name string) {
		if strings.HasPrefix(name, "examples/") && filepath.Base(name) == "main.go" {
			paths = append(paths, name)
		}
	}, ".go")
	if len(paths) < 20 {
		t.Errorf("found %d programs", len(paths))
	}
	return paths
}

// shownCommand is a command in the comment of a program, and lines of what it prints.
type shownCommand struct {
	text   string
	output []string
}

// session returns the commands in the package comment of a program. They stand behind "$ ", and
// each has below it lines of what it prints, in their order. "..." stands for any text.
func session(t *testing.T, path string) (commands []shownCommand) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil,
		parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	var last *shownCommand // nil outside of a session
	for line := range strings.Lines(file.Doc.Text()) {
		line, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case !indented:
			last = nil
		case isCommand:
			commands = append(commands, shownCommand{text: command})
			last = &commands[len(commands)-1]
		case last == nil: // an excerpt
		case strings.HasPrefix(line, "  ") && isContinued(last.text):
			last.text += "\n" + line
		default:
			last.output = append(last.output, strings.TrimSpace(line))
		}
	}
	return commands
}

// isContinued reports whether a command goes on in the next line.
func isContinued(command string) bool {
	return strings.HasSuffix(command, `\`) || strings.HasSuffix(command, "|") ||
		strings.Count(command, "'")%2 == 1 ||
		strings.HasPrefix(command, "for ") && !strings.Contains(command, "\n  done")
}

// assigned matches a command that sets a variable for later ones.
var assigned = regexp.MustCompile(`^([a-z]+)=`)

// starts reports whether a command starts a server, which runs until the session ends.
func (c shownCommand) starts() bool {
	return c.text == "redis-server" ||
		strings.Contains(c.text, "go ") && strings.Contains(c.text, " run ") && c.output == nil
}

// TestProgramsAnswerAsTheirCommentsShow runs the session of each program, with ports of its own,
// until all is as shown: how many units have come back between two requests depends on the
// machine.
func TestProgramsAnswerAsTheirCommentsShow(t *testing.T) {
	testrun.DependsOnSource(t, root)
	for _, path := range programs(t) {
		t.Run(strings.TrimPrefix(filepath.Dir(path), "examples/"), func(t *testing.T) {
			t.Parallel() // they wait more than they work
			testrun.Program(t, "bash")
			testrun.Program(t, "curl")
			commands := session(t, path)
			asked := 0
			for _, command := range commands {
				if !command.starts() && command.output != nil {
					asked++
				}
				if command.text == "redis-server" {
					testrun.FullOnly(t, "programs with Redis")
				}
				if strings.HasPrefix(command.text, "go -C ") {
					testrun.FullOnly(t, "compiles another module")
				}
			}
			if asked == 0 {
				t.Fatalf("%s does not show what the program answers", path)
			}
			var err error
			for range 10 {
				if err = play(t, commands); err == nil {
					return
				}
			}
			t.Errorf("%s: %v", path, err)
		})
	}
}

// play runs the commands of a session, and returns how the first one differs.
func play(t *testing.T, commands []shownCommand) error {
	t.Helper()
	ports := make(map[string]string) // by those shown
	replaced := []string{"/tmp/", t.TempDir() + "/"}
	for _, shown := range []string{"8080", "8081", "8082", "6379"} {
		_, port, _ := net.SplitHostPort(freeAddr(t))
		ports[shown] = port
		replaced = append(replaced, ":"+shown, ":"+port)
	}
	ofSession := strings.NewReplacer(replaced...)
	env := []string{
		"ADDR=127.0.0.1:" + ports["8080"], "ADMIN=127.0.0.1:" + ports["8081"], "REDIS_URL=",
		"URL=http://127.0.0.1:" + ports["8080"], // of the client
	}
	variables := "" // their assignments
	for _, command := range commands {
		text := strings.ReplaceAll(ofSession.Replace(command.text), "ADDR=:", "ADDR=127.0.0.1:")
		switch {
		case command.text == "redis-server":
			startRedis(t, ports["6379"])
			env = append(env, "REDIS_URL=redis://127.0.0.1:"+ports["6379"])
		case command.starts():
			startProgram(t, text, env)
		default:
			if strings.Contains(text, "go run") {
				text += " 2>&1" // the log
			}
			// What is shown is what it prints. When a call is refused early, curl may fail after that.
			before := "export " + strings.Join(env, " ") + "\n" + variables
			if name := assigned.FindStringSubmatch(text); name != nil {
				out := bash(t, before+text+"\nprintf %q \"$"+name[1]+"\"\n")
				variables += name[1] + "=" + out + "\n"
				continue
			}
			out := bash(t, before+"{ "+text+"\n} || true\n")
			if missing := firstMissing(command.output, out); missing != "" {
				return fmt.Errorf("%s\n%s", command.text, missing)
			}
		}
	}
	return nil
}

func startRedis(t *testing.T, port string) {
	t.Helper()
	_, log := run(t, nil, testrun.Program(t, "redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir",
		t.TempDir())
	go io.Copy(io.Discard, log)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// startProgram starts a server by the command that is shown, and waits until it listens.
func startProgram(t *testing.T, command string, env []string) {
	t.Helper()
	fields := strings.Fields(command)
	for len(fields) > 1 && strings.Contains(fields[0], "=") {
		env, fields = append(env, fields[0]), fields[1:]
	}
	if fields[1] == "-C" { // another module
		env = append(env, "GOFLAGS=")
	}
	_, log := run(t, env, fields[0], fields[1:]...)
	var said strings.Builder
	for !strings.Contains(said.String(), "listening on ") {
		line, err := log.ReadString('\n')
		if said.WriteString(line); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, said.String())
		}
	}
	go io.Copy(io.Discard, log)
}

// firstMissing says which of the lines that are shown is not among those that were printed, in
// this order. "" means that all are.
func firstMissing(shown []string, out string) string {
	got := strings.Split(strings.ReplaceAll(out, "\r", ""), "\n")
	for _, want := range shown {
		for {
			if len(got) == 0 {
				return "shows\n" + want + "\nand prints\n" + out
			}
			line := strings.TrimSpace(got[0])
			got = got[1:]
			if isAsShown(want, line) {
				break
			}
		}
	}
	return ""
}

// waits are the numbers of seconds that depend on the instant of a request.
var waits = regexp.MustCompile(`(;t=|[Rr]etry-[Aa]fter: |retry in )([0-9]+)`)

// isAsShown reports whether a line is as shown. A wait may be half as long, or twice as long.
func isAsShown(want, got string) bool {
	pattern := regexp.QuoteMeta(waits.ReplaceAllString(want, "${1}N"))
	pattern = "^" + strings.ReplaceAll(pattern, `\.\.\.`, ".*") + "$"
	if !regexp.MustCompile(pattern).MatchString(waits.ReplaceAllString(got, "${1}N")) {
		return false
	}
	wanted, found := waits.FindAllStringSubmatch(want, -1), waits.FindAllStringSubmatch(got, -1)
	for i := range min(len(wanted), len(found)) {
		w, _ := strconv.Atoi(wanted[i][2])
		f, _ := strconv.Atoi(found[i][2])
		if f*2 < w || f > w*2 {
			return false
		}
	}
	return true
}

// Examples are copied and read beside other windows. A tab is four columns wide.
func TestLinesOfExamplesAreShort(t *testing.T) {
	walk(t, func(name string) {
		if !strings.HasPrefix(name, "examples/") || strings.HasSuffix(name, "_test.go") ||
			strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, ".connect.go") { // generated
			return
		}
		for i, line := range lines(t, name) {
			if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > 100 {
				t.Errorf("%s:%d: the line has %d columns, more than 100", name, i+1, n)
			}
		}
	}, ".go")
}
