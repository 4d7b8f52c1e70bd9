package accesslog_test

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// hostile are pieces of what a client may send to confuse the reader of a log.
var hostile = []string{
	`"`, `\`, `\"`, `""`, `\\"`, `\x22`, `\u0022`, `%22`, ` [`, `] `, `] "`,
	` [24/Feb/2024:12:00:59 +0000] "GET /forged HTTP/1.1" 200 5 "-" "-"`, `[24/Feb/2024:12:00:59 +0000]`,
	`" 200 5 "`, `" 1 "r" "http://10.0.0.2:80" 9ms`, `203.0.113.9`, `203.0.113.9 - - `,
	`"remote_addr":"203.0.113.9"`, `"},{"`, `","request":{"remote_ip":"203.0.113.9"`, `{"log":"`, `#Fields: `, `<190>`,
	"\t", "\x01", "\x7f", "\xff", "é", "\x1b[0m", `| `, `-`, `'`, `,`, ` `, `   `, "stdout F ", "HTTP/1.1", "//",
	"?", "%", "%zz", "a", "b", "c",
}

// anything returns some hostile pieces, without the bytes that a place cannot have.
func anything(random *rand.Rand, without string) string {
	var b strings.Builder
	for range random.IntN(4) {
		b.WriteString(hostile[random.IntN(len(hostile))])
	}
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(without, c) {
			return '_'
		}
		return c
	}, b.String())
}

// sent is a request that was sent to a server.
type sent struct {
	client         netip.Addr
	method, target string // target is "" for what is no request
	status         int    // of the answer, 0: unknown
	counted        int
}

// isAnswered reports whether a server has taken r for a request.
func (r *sent) isAnswered() bool { return r.status != 0 && r.status != 400 && r.target != "" }

// server is a real one, which listens at an address and logs to files.
type server struct {
	addr  string
	end   func()                       // ends the server, which completes its logs
	logs  map[string]accesslog.Options // by path
	tells bool                         // a field X-Client has the address of the client

	// A server that escapes nothing, or writes targets in another way: lines may be listed as
	// unread, and targets are not compared.
	loose bool

	most int // requests; 0: as the size of the run is
}

// start starts a program that listens at an address, and returns what ends it.
func start(t *testing.T, addr, dir string, signal os.Signal, command ...string) (end func()) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one address of loopback")
	}
	cmd := testrun.Command(t, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case <-ended:
		default:
			if time.Now().Before(deadline) {
				continue
			}
		}
		text, _ := os.ReadFile(filepath.Join(dir, "said"))
		t.Fatalf("%s: %v\n%s", command[0], err, text)
	}
	return func() {
		cmd.Process.Signal(signal)
		<-ended
	}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
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

func startNginx(t *testing.T) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	writeFiles(t, dir, map[string]string{"html/index.html": "hello\n", "nginx.conf": fmt.Sprintf(`
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  log_format vhost '$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time';
  log_format ingress '$remote_addr - [$remote_user] - - [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $upstream_response_time';
  log_format json escape=json '{"time":"$time_iso8601","remote_addr":"$remote_addr","request":"$request","status":$status,"request_time":$request_time,"upstream":$upstream_response_time,"agent":"$http_user_agent","referer":"$http_referer","user":"$remote_user"}';
  log_format plain '{"msec":$msec,"user":"$remote_user","agent":"$http_user_agent","remote_addr":"$remote_addr","request_method":"$request_method","request_uri":"$request_uri","request":"$request","status":$status,"upstream":$upstream_response_time}';
  log_format quoted '"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""';
  access_log combined.log combined; access_log vhost.log vhost; access_log ingress.log ingress; access_log json.log json; access_log plain.log plain; access_log quoted.log quoted;
  set_real_ip_from 127.0.0.0/8; real_ip_header X-Client;
  server { listen %s; root html; error_page 404 405 =200 /index.html; }
}
`, addr)})
	s := &server{addr: addr, logs: make(map[string]accesslog.Options), tells: true}
	s.end = start(t, addr, dir, syscall.SIGQUIT, "nginx", "-p", dir, "-c", "nginx.conf")
	for _, name := range []string{"combined", "vhost", "ingress", "json", "plain", "quoted"} {
		s.logs[filepath.Join(dir, name+".log")] = accesslog.Options{}
	}
	return s
}

func startApache(t *testing.T) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	const modules = "/usr/lib/apache2/modules/mod_"
	writeFiles(t, dir, map[string]string{"html/index.html": "hello\n", "apache.conf": fmt.Sprintf(`
ServerRoot %[2]s
ServerName example.com
Listen %[1]s
PidFile %[2]s/pid
Mutex file:%[2]s
DefaultRuntimeDir %[2]s
User www-data
Group www-data
LoadModule mpm_event_module %[3]smpm_event.so
LoadModule authz_core_module %[3]sauthz_core.so
LoadModule authz_user_module %[3]sauthz_user.so
LoadModule auth_basic_module %[3]sauth_basic.so
LoadModule authn_core_module %[3]sauthn_core.so
LoadModule authn_anon_module %[3]sauthn_anon.so
LoadModule remoteip_module %[3]sremoteip.so
ErrorLog /dev/stderr
RemoteIPHeader X-Client
RemoteIPInternalProxy 127.0.0.0/8
DocumentRoot %[2]s/html
<Location "/">
AuthType Basic
AuthName any
AuthBasicProvider anon
Anonymous "*"
Anonymous_NoUserID On
Anonymous_MustGiveEmail Off
Require valid-user
</Location>
LogFormat "%%a %%l %%u %%t \"%%r\" %%>s %%b" common
LogFormat "%%a %%l %%u %%t \"%%r\" %%>s %%b \"%%{Referer}i\" \"%%{User-Agent}i\"" combined
LogFormat "%%v:%%p %%a %%l %%u %%t \"%%r\" %%>s %%O \"%%{Referer}i\" \"%%{User-Agent}i\"" vhost
CustomLog %[2]s/common.log common
CustomLog %[2]s/combined.log combined
CustomLog %[2]s/vhost.log vhost
`, addr, dir, modules)})
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil { // for its user
		t.Fatal(err)
	}
	s := &server{addr: addr, logs: make(map[string]accesslog.Options), tells: true}
	s.end = start(t, addr, dir, syscall.SIGTERM, "apache2", "-X", "-f", filepath.Join(dir, "apache.conf"))
	for _, name := range []string{"common", "combined", "vhost"} {
		s.logs[filepath.Join(dir, name+".log")] = accesslog.Options{}
	}
	return s
}

func startCaddy(t *testing.T) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	writeFiles(t, dir, map[string]string{"Caddyfile": fmt.Sprintf(`
{
	admin off
	auto_https off
	log {
		output file %[2]s/access.log
	}
}
http://:%[1]s {
	log
	handle /a* {
		reverse_proxy 127.0.0.1:1
	}
	handle {
		respond "hello"
	}
}
`, port, dir)})
	s := &server{addr: "127.0.0.1:" + port, logs: map[string]accesslog.Options{filepath.Join(dir, "access.log"): {}}}
	s.end = start(t, s.addr, dir, syscall.SIGTERM, "caddy", "run", "--config", filepath.Join(dir, "Caddyfile"),
		"--adapter", "caddyfile")
	return s
}

// clients returns the addresses of the i-th client: that of its connection, and one that a proxy
// tells, which servers of two know unless they have refused the request before.
func clients(i int) (peer, told netip.Addr) {
	return netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}),
		netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::%d:4711", i, i%10000))
}

// request sends a hostile request of the i-th client, and returns it.
func (s *server) request(t *testing.T, random *rand.Rand, i int) *sent {
	t.Helper()
	peer, told := clients(i)
	dialer := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: peer.AsSlice()}}
	conn, err := dialer.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	patience := 30 * time.Second
	if s.most > 0 {
		patience = time.Second // some wait for more of what is no request
	}
	conn.SetDeadline(time.Now().Add(patience))
	r := &sent{client: peer, method: "GET", target: "/" + anything(random, " \t\x01\x7f")}
	if random.IntN(8) == 0 {
		r.method = []string{"POST", "get", "OPTIONS", "VERSION-CONTROL", "X_Y"}[random.IntN(5)]
	}
	line := r.method + " " + r.target + " HTTP/1.1"
	switch random.IntN(20) {
	case 0:
		line = []string{"\x16\x03\x01\x00\xee", "GET", "GET / HTTP/9", "", "GET  /  HTTP/1.1", `"" 200 5 "-" "-"`,
			"GET /a b HTTP/1.1", "-"}[random.IntN(8)]
		r.target = ""
	case 1:
		r.target = "/" + anything(random, " \t\x01\x7f/?#")
		line = r.method + " http://evil.example" + r.target + " HTTP/1.1"
	}
	header := ""
	if s.tells && i%2 == 1 {
		header, r.client = "X-Client: "+told.String()+"\r\n", told
	}
	user := base64.StdEncoding.EncodeToString([]byte(anything(random, "\x00:") + ":secret"))
	fmt.Fprintf(conn, "%s\r\nHost: %s\r\n%sUser-Agent: %s\r\nReferer: %s\r\n"+
		"Authorization: Basic %s\r\nX-Forwarded-For: 203.0.113.9\r\nConnection: close\r\n\r\n",
		line, "example.com", header, anything(random, "\x00"), anything(random, "\x00"), user)
	reader := bufio.NewReader(conn)
	answer, _ := reader.ReadString('\n')
	if s.most == 0 {
		io.Copy(io.Discard, reader)
	} else { // some leave the connection open
		all := bufio.NewReader(io.MultiReader(strings.NewReader(answer), reader))
		if response, err := http.ReadResponse(all, nil); err == nil {
			io.Copy(io.Discard, response.Body)
		}
	}
	if words := strings.Fields(answer); len(words) > 1 && strings.HasPrefix(words[0], "HTTP/") {
		r.status, _ = strconv.Atoi(words[1])
	}
	return r
}

// Each request that a real server logs counts once, for the client that sent it. What is no
// request is listed, and nothing that the server has answered is.
func testServer(t *testing.T, s *server) {
	random := testrun.Random(t)
	requests := make(map[netip.Addr]*sent)
	for i := range cmp.Or(s.most, testrun.Sized(60, 1500)) {
		peer, _ := clients(i)
		requests[peer] = s.request(t, random, i)
		requests[requests[peer].client] = requests[peer]
	}
	s.end()
	for path, o := range s.logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		l := open(t, string(text), o)
		var e accesslog.Entry
		for l.Next(&e) {
			r := requests[e.Address]
			if r == nil {
				t.Errorf("%s: nobody is %s, who sent %s %q", filepath.Base(path), e.Address, e.Method, e.Target)
				continue
			}
			r.counted++
			if r.isAnswered() &&
				(e.Address != r.client || !s.loose && (e.Method != r.method || !same(e.Target, r.target)) ||
					e.Status != r.status && e.Status != 0) {
				t.Errorf("%s: got %s %s %q, %d, want %+v", filepath.Base(path), e.Address, e.Method, e.Target, e.Status,
					r)
			}
		}
		refused := int64(0)
		for client, r := range requests {
			if client != r.client {
				continue // the address of its connection
			}
			if r.counted > 1 || r.counted == 0 && r.isAnswered() && !s.loose {
				t.Errorf("%s: %+v is counted %d times", filepath.Base(path), r, r.counted)
			}
			if r.counted = 0; !r.isAnswered() {
				refused++
			}
		}
		c := l.Counts()
		lines := int64(strings.Count(string(text), "\n"))
		if s.loose {
			if c.Requests == 0 || c.Unread() > c.Lines/2 || c.Incomplete {
				t.Errorf("%s: %+v", filepath.Base(path), c)
			}
			continue
		}
		if skipped := c.Lines - c.Requests - c.Other; c.Lines != lines || skipped > refused+1 || c.Incomplete ||
			c.Malformed+c.Binary+c.TooLong > 0 {
			t.Errorf("%s: %d lines, %d refused, %+v", filepath.Base(path), lines, refused, c)
			for _, s := range l.Skipped() {
				t.Logf("%+v", s)
			}
		}
	}
}

// same compares texts as JSON has them: what is no UTF-8 is U+FFFD there.
func same(a, b string) bool {
	return a == b || strings.ToValidUTF8(a, "\ufffd") == strings.ToValidUTF8(b, "\ufffd")
}

func TestNginxIsReadWhateverItsClientsSend(t *testing.T)  { testServer(t, startNginx(t)) }
func TestApacheIsReadWhateverItsClientsSend(t *testing.T) { testServer(t, startApache(t)) }
func TestCaddyIsReadWhateverItsClientsSend(t *testing.T)  { testServer(t, startCaddy(t)) }
