package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// spellings are 76 request targets that some server takes for /login.
var spellings = strings.Fields(`
	/login /login? /login?a=b /login/ /login// /login/. /login/./ /login/x/.. /login/../login
	//login ///login /./login /.//login /../login /x/../login /x/y/../../login /x//../login
	/LOGIN /Login /lOgIn /LOGIN/ /LOGIN?a=b //LOGIN /./LOGIN /x/../LOGIN /X/../Login/ /login/LOGIN/..
	/%6Cogin /%6cogin /logi%6E /%4Cogin /%4cOGIN /LOG%49N /%2e/login /%2E/LOGIN /x/%2e%2e/login
	/x/%2E%2e/Login /x/.%2e/login /%2Flogin /%2flogin /x%2F..%2Flogin /x/..%2Flogin /login%2F /login%2f.
	/login; /login;a /login;a=b /login;a=b;c=d /login;a=b/ /login/;a=b /;/login /;a=b/login /x/..;/login
	/x/..;a=b/login /x;a=b/../login /x;/..;/login;c /LOGIN;A=B /x/%2e%2e;/login /login%3B /login%3ba=b
	/x/..%3B/login /login#a /login;a#b /LOGIN#a?b /\login /x\..\login
	/x/%2e%2e;a%2Fb/login /x/%2e%2e;a/./login /x/y/%2E./%2e%2E;/login /x;%2e%2e/%2e%2e/login /%2e;a/login
	/x/%2e%2e;a=%2e%2e/login /login/%2e;b /x/y/..;a/..;b/login /.;/login /x/.%2e;a;b/LOGIN`)

// program is a web server in another language. It answers "login" to /login.
type program struct {
	name  string
	start func(t *testing.T, dir, port string) // in the background, until the test ends
	reach int                                  // so many spellings at least are its /login
}

var programsBehind = []program{
	{"Express 5", startExpress, 10},
	{"Tomcat 10", startTomcat, 25},
}

func startExpress(t *testing.T, dir, port string) {
	install := testrun.Command(t, "npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", dir,
		"express@5.3.0")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	background(t, dir, "node", fileIn(t, dir, "app.js", `
const app = require("express")();
app.all("/login", (request, answer) => answer.send("login"));
app.use((request, answer) => answer.send("other"));
app.listen(Number(process.argv[2]), "127.0.0.1");
`), port)
}

// tomcat is what Debian's libtomcat10-java and libtomcat10-embed-java install.
const tomcat = "/usr/share/java/tomcat10-embed-core.jar:/usr/share/java/tomcat10-annotations-api.jar"

func startTomcat(t *testing.T, dir, port string) {
	testrun.Program(t, "javac") // java compiles the file
	for jar := range strings.SplitSeq(tomcat, ":") {
		if _, err := os.Stat(jar); err != nil && !testrun.Full() {
			t.Skip(err)
		}
	}
	background(t, dir, "java", "-cp", tomcat, fileIn(t, dir, "App.java", `
import jakarta.servlet.http.*;
import org.apache.catalina.startup.Tomcat;

public class App {
    static class Says extends HttpServlet {
        final String text;
        Says(String text) { this.text = text; }
        @Override protected void service(HttpServletRequest r, HttpServletResponse w)
                throws java.io.IOException {
            w.getWriter().print(text);
        }
    }
    public static void main(String[] args) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(args[0]);
        tomcat.setPort(Integer.parseInt(args[1]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        var context = tomcat.addContext("", args[0]);
        Tomcat.addServlet(context, "login", new Says("login"));
        context.addServletMappingDecoded("/login/*", "login");
        Tomcat.addServlet(context, "other", new Says("other"));
        context.addServletMappingDecoded("/", "other");
        tomcat.start();
        tomcat.getServer().await();
    }
}
`), dir, port)
}

func fileIn(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// background starts a program that listens on the port of its last argument, and waits for it.
func background(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	s := &system{t: t, dir: dir, url: "http://127.0.0.1:" + args[len(args)-1]}
	s.run(name, args...)
}

// sent sends a request target as it is, and returns status and body of the answer.
func sent(t *testing.T, address, target string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second)) // far above all time-outs
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n", target)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "" // refused without an answer
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// passing returns the spellings that reach /login of a program behind a proxy, though its limit is
// used up. head is the first part of the policy.
func passing(t *testing.T, proxy proxy, app, head string) (all []string) {
	t.Helper()
	path := testrun.Program(t, proxy.program)
	s := setUp(t, proxy.denied, "weir.yaml")
	s.weir.end()
	policy := s.write("spellings.yaml",
		head+"rules:\n  - {name: log-in, match: /login, key: everybody, limit: 1/365d}\n")
	s.weir = start(t, Config{Paths: []string{policy}, DeniedStatus: proxy.denied, Drain: time.Second})
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	s.ports = strings.NewReplacer("8000", port(s.url), "9000", app, "8080", port(s.weir.check),
		"8081", port(s.weir.grpc))
	proxy.run(s, path)
	address := strings.TrimPrefix(s.url, "http://")
	deadline := time.Now().Add(time.Minute)
	for status := 0; status != http.StatusTooManyRequests; { // a proxy may listen before it has a route
		if status, _ = sent(t, address, "/login"); time.Now().After(deadline) {
			t.Fatalf("%s answers %d once the limit is used up", proxy.program, status)
		}
	}
	for _, target := range spellings {
		if _, body := sent(t, address, target); body == "login" {
			all = append(all, target)
		}
	}
	if status, body := sent(t, address, "/other"); body != "other" {
		t.Errorf("%s: what no rule limits: %d %q", proxy.program, status, body)
	}
	return all
}

// Whatever a program in another language takes for a route is counted, through each proxy, and by
// default.
func TestNoSpellingEscapesInFrontOfAnyServer(t *testing.T) {
	testrun.FullOnly(t, "starts Express and Tomcat behind five proxies")
	if len(spellings) != 76 {
		t.Fatalf("there are %d spellings, want 66", len(spellings))
	}
	for _, behind := range programsBehind {
		t.Run(behind.name, func(t *testing.T) {
			address, err := freeport.Address()
			if err != nil {
				t.Fatal(err)
			}
			_, port, _ := net.SplitHostPort(address)
			behind.start(t, t.TempDir(), port)
			reached := 0
			for _, target := range spellings {
				if _, body := sent(t, address, target); body == "login" {
					reached++
				}
			}
			t.Logf("%d spellings are its /login", reached)
			if reached < behind.reach {
				t.Errorf("%d spellings are its /login, want %d at least: this test shows nothing",
					reached, behind.reach)
			}
			for _, proxy := range proxies {
				t.Run(proxy.program, func(t *testing.T) {
					for _, target := range passing(t, proxy, port, "version: 1\n") {
						t.Errorf("%s escapes", target)
					}
					if found := passing(t, proxy, port, "version: 1\npaths: go\n"); len(found) == 0 {
						t.Error("by paths: go none escapes: this test shows nothing")
					} else {
						t.Logf("by paths: go these escape: %s", strings.Join(found, " "))
					}
				})
			}
		})
	}
}

// The example of limits by path in the guide sends one value for all spellings.
func TestNoSpellingEscapesADescriptorOfTheGuide(t *testing.T) {
	envoy := testrun.Program(t, "envoy")
	s := setUp(t, 0, "weir.yaml")
	s.weir.end()
	limits := s.write("paths.yaml", "domain: shop\ndescriptors:\n  - key: path\n    value: /reports/*\n"+
		"    share_threshold: true\n    rate_limit: {unit: year, requests_per_unit: 2}\n")
	before := s.weir.grpc
	s.weir = start(t, Config{Paths: []string{limits}, Drain: time.Second})
	text := s.ports.Replace(s.files["envoy.yaml"])
	port := func(address string) string { return "port_value: " + address[strings.LastIndexByte(address, ':')+1:] }
	text = strings.ReplaceAll(text, port(before), port(s.weir.grpc))
	from := strings.Index(text, "                  - name: envoy.filters.http.ext_authz")
	to := strings.Index(text, "                  - name: envoy.filters.http.ratelimit")
	s.run(envoy, "-c", s.write("envoy.yaml", text[:from]+text[to:]),
		"--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	address := strings.TrimPrefix(s.url, "http://")
	for i, target := range []string{"/reports/1", "/reports/2", "/reports/3"} {
		if status, _ := sent(t, address, target); (status == 200) != (i < 2) {
			t.Errorf("%s: %d", target, status)
		}
	}
	for _, target := range []string{
		"/REPORTS/4", "/Reports/", "/reports;a=b/5", "//reports/6", "/x/../reports/7", "/x/..;/reports/8",
		"/x/..;a=b/Reports/8", "/x/%2e%2e;/reports/9", "/x/%2E%2E;/reports/9", "/x/.%2e;a/reports/9",
		"/%52eports/10", "/%72eports/10", "/;a/reports/11", "/;a=b/;c/reports/11", "/.;/reports/12",
		"/reports", "/reports;a", "/Reports?a=b", "/reports/1?a=/b", "/./reports/1", "/x/%2e%2e/reports/1",
		"/x;a/../reports/1", "/reports/%2e/1", "/reports%2F1", "/reports/..;/reports/1",
	} {
		if status, _ := sent(t, address, target); status == 200 {
			t.Errorf("%s escapes", target)
		}
	}
	for _, target := range []string{"/", "/other", "/reportsx/1", "/other/reports/1", "/other?a=/reports/1", "/a;b/c"} {
		if status, _ := sent(t, address, target); status != 200 {
			t.Errorf("%s: %d, want 200", target, status)
		}
	}
}
