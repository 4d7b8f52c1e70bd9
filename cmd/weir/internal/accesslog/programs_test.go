package accesslog_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// programs are real ones that write the formats of the table, with what clients send to confuse a
// reader. Where one cannot be had, its test is skipped.
var programs = map[string]func(*testing.T) *server{
	"HAProxy":        func(t *testing.T) *server { return startHAProxy(t, "option httplog") },
	"HAProxy as CLF": func(t *testing.T) *server { return startHAProxy(t, "option httplog clf") },
	"Envoy":          startEnvoy, "Traefik": startTraefik, "Squid": startSquid, "Caddy for a console": startCaddyConsole,
	"gin":            func(t *testing.T) *server { return startGo(t, "gin") },
	"chi":            func(t *testing.T) *server { return startGo(t, "chi") },
	"httplog of chi": func(t *testing.T) *server { return startGo(t, "httplog") },
	"echo":           func(t *testing.T) *server { return startGo(t, "echo") },
	"Fiber":          func(t *testing.T) *server { return startGo(t, "fiber") },
	"gunicorn": func(t *testing.T) *server {
		return startPython(t, "gunicorn", "app:wsgi", "-b", "ADDR", "--access-logfile", "-")
	},
	"hypercorn": func(t *testing.T) *server {
		return startPython(t, "hypercorn", "app:asgi", "-b", "ADDR", "--access-logfile", "-")
	},
	"uWSGI": func(t *testing.T) *server {
		return startPython(t, "pyuwsgi", "--http-socket", "ADDR", "--wsgi-file", "app.py", "--callable", "wsgi")
	},
	"pino-http": func(t *testing.T) *server { return startNode(t, "pino") },
	"Fastify":   func(t *testing.T) *server { return startNode(t, "fastify") },
	"morgan":    func(t *testing.T) *server { return startNode(t, "morgan") },
	"Tomcat":    startTomcat, "Armeria": startArmeria, "actix": startActix,
}

func TestLogsOfRealProgramsAreRead(t *testing.T) {
	goDir = t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t.Run(name, func(t *testing.T) {
			testrun.FullOnly(t, "It runs "+name)
			s := programs[name](t)
			s.most = 150
			testServer(t, s)
		})
	}
}

// addLogs adds logs of a directory.
func (s *server) addLogs(dir string, names ...string) *server {
	if s.logs == nil {
		s.logs = make(map[string]accesslog.Options)
	}
	for _, name := range names {
		s.logs[filepath.Join(dir, name)] = accesslog.Options{}
	}
	return s
}

// syslog receives datagrams and writes each as a line of a file.
func syslog(t *testing.T, path string) (addr string, end func()) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var text strings.Builder
	group.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, _, err := conn.ReadFrom(buf)
			if err != nil || string(buf[:n]) == "end" {
				return
			}
			text.WriteString(strings.TrimSuffix(string(buf[:n]), "\n") + "\n")
		}
	})
	return conn.LocalAddr().String(), func() {
		last, err := net.Dial("udp", conn.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		last.Write([]byte("end"))
		last.Close()
		group.Wait()
		conn.Close()
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func startHAProxy(t *testing.T, option string) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	s := &server{addr: addr, loose: true}
	ends := []func(){}
	logs := ""
	for _, form := range []string{"local", "rfc3164", "rfc5424", "iso", "timed", "short", "raw"} {
		to, end := syslog(t, filepath.Join(dir, form+".log"))
		ends = append(ends, end)
		logs += fmt.Sprintf("  log %s format %s local0\n", to, form)
		s.addLogs(dir, form+".log")
	}
	writeFiles(t, dir, map[string]string{"haproxy.cfg": fmt.Sprintf(`
defaults
  mode http
  timeout client 30s
  timeout connect 5s
  timeout server 30s
frontend web
  bind %s
%s  %s
  capture request header User-Agent len 60
  http-request return status 200 content-type text/plain string hello
`, addr, logs, option)})
	end := start(t, addr, dir, syscall.SIGTERM, "haproxy", "-db", "-f", "haproxy.cfg")
	s.end = func() {
		end()
		for _, end := range ends {
			end()
		}
	}
	return s
}

func startEnvoy(t *testing.T) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	writeFiles(t, dir, map[string]string{"envoy.yaml": fmt.Sprintf(`
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          use_remote_address: true
          delayed_close_timeout: 0s
          access_log:
          - name: file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: %s/envoy.log
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: "/"}, direct_response: {status: 200}}]}
          http_filters:
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`, port, dir)})
	s := &server{addr: addr, loose: true}
	s.end = start(t, addr, dir, syscall.SIGTERM, "envoy", "-c", "envoy.yaml", "--use-dynamic-base-id")
	return s.addLogs(dir, "envoy.log")
}

func startTraefik(t *testing.T) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	writeFiles(t, dir, map[string]string{"traefik.yaml": fmt.Sprintf(`
entryPoints: {web: {address: "%s"}}
accessLog: {filePath: %s/traefik.log, format: json}
ping: {entryPoint: web}
`, addr, dir)})
	s := &server{addr: addr, loose: true}
	s.end = start(t, addr, dir, syscall.SIGTERM, "traefik", "--configFile=traefik.yaml")
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		// it logs nothing until it has its routers
		if response, err := http.Get("http://" + addr + "/ping"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				break
			}
		}
	}
	return s.addLogs(dir, "traefik.log")
}

func startSquid(t *testing.T) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	writeFiles(t, dir, map[string]string{"squid.conf": fmt.Sprintf(`
http_port %s accel defaultsite=example.com no-vhost
cache_peer 127.0.0.1 parent 1 0 no-query originserver
http_access allow all
access_log stdio:%[2]s/squid.log
cache_log %[2]s/cache.log
pid_filename %[2]s/squid.pid
coredump_dir %[2]s
cache deny all
shutdown_lifetime 0 seconds
`, addr, dir)})
	for _, dir := range []string{dir, filepath.Dir(dir)} { // for its user
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s := &server{addr: addr, loose: true}
	s.end = start(t, addr, dir, syscall.SIGTERM, "squid", "-N", "-f", filepath.Join(dir, "squid.conf"))
	return s.addLogs(dir, "squid.log")
}

func startCaddyConsole(t *testing.T) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	writeFiles(t, dir, map[string]string{"Caddyfile": fmt.Sprintf(`
{
	admin off
	auto_https off
}
http://:%s {
	log {
		output file %s/caddy.log
		format console
	}
	respond "hello"
}
`, port, dir)})
	s := &server{addr: "127.0.0.1:" + port}
	s.end = start(t, s.addr, dir, syscall.SIGTERM, "caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile")
	return s.addLogs(dir, "caddy.log")
}

// goProgram serves by the framework that its first argument names, and logs as that does.
const goProgram = `package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httplog/v3"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/logger"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
)

func main() {
	addr := os.Args[2]
	hello := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }
	switch os.Args[1] {
	case "gin":
		gin.SetMode(gin.ReleaseMode)
		e := gin.New()
		e.SetTrustedProxies(nil)
		e.Use(gin.Logger())
		e.NoRoute(func(c *gin.Context) { c.String(200, "hello") })
		http.ListenAndServe(addr, e)
	case "chi":
		r := chi.NewRouter()
		r.Use(middleware.RequestID, middleware.Logger)
		r.HandleFunc("/*", hello)
		http.ListenAndServe(addr, r)
	case "httplog":
		r := chi.NewRouter()
		schema := httplog.SchemaECS
		handler := slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: schema.ReplaceAttr})
		r.Use(httplog.RequestLogger(slog.New(handler), &httplog.Options{Schema: schema}))
		r.HandleFunc("/*", hello)
		http.ListenAndServe(addr, r)
	case "echo":
		e := echo.New()
		e.HideBanner, e.HidePort = true, true
		e.IPExtractor = echo.ExtractIPDirect()
		e.Use(echomiddleware.Logger())
		e.Any("/*", func(c echo.Context) error { return c.String(200, "hello") })
		e.Start(addr)
	case "fiber":
		a := fiber.New()
		a.Use(logger.New(logger.Config{
			Format: logger.CombinedFormat, TimeFormat: "02/Jan/2006:15:04:05 -0700",
		}))
		a.Use(func(c fiber.Ctx) error { return c.SendString("hello") })
		a.Listen(addr, fiber.ListenConfig{DisableStartupMessage: true})
	}
}
`

// goModules are the modules of goProgram.
var goModules = []string{
	"github.com/gin-gonic/gin@v1.12.0", "github.com/go-chi/chi/v5@v5.5.0", "github.com/go-chi/httplog/v3@v3.3.0",
	"github.com/gofiber/fiber/v3@v3.5.0", "github.com/labstack/echo/v4@v4.16.4",
}

// goDir is where the test that runs builds goProgram, once for all frameworks.
var goDir string

func startGo(t *testing.T, framework string) *server {
	built, program := goDir, filepath.Join(goDir, "program")
	if _, err := os.Stat(program); err != nil {
		writeFiles(t, built, map[string]string{"main.go": goProgram, "go.mod": "module program\n\ngo 1.26.0\n"})
		for _, args := range [][]string{
			append([]string{"get"}, goModules...), {"mod", "tidy"}, {"build", "-o", program, "."},
		} {
			cmd := testrun.Command(t, "go", args...)
			cmd.Dir, cmd.Env = built, append(os.Environ(), "GOFLAGS=") // they may name a go.mod of weir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("go %q: %v\n%s", args, err, out)
			}
		}
	}
	dir, addr := t.TempDir(), freeAddr(t)
	s := &server{addr: addr, loose: framework != "echo"}
	s.end = start(t, addr, dir, syscall.SIGTERM, program, framework, addr)
	return s.addLogs(dir, "said")
}

const pythonProgram = `
async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def wsgi(env, start):
    start("200 OK", [("Content-Length", "5")])
    return [b"hello"]
`

// startPython starts a server of Python, which pip installs. ADDR in args is the address.
func startPython(t *testing.T, name string, args ...string) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	packages := map[string]string{"gunicorn": "gunicorn==27.0.1", "hypercorn": "hypercorn==0.18.0",
		"pyuwsgi": "pyuwsgi==2.0.30.post1"}
	install := testrun.Command(t, "python3", "-m", "pip", "install", "-q", "--target", dir, packages[name])
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("pip: %v\n%s", err, out)
	}
	writeFiles(t, dir, map[string]string{"app.py": pythonProgram})
	for i, arg := range args {
		if arg == "ADDR" {
			args[i] = addr
		}
	}
	t.Setenv("PYTHONPATH", dir)
	s := &server{addr: addr, loose: true}
	s.end = start(t, addr, dir, syscall.SIGINT, append([]string{filepath.Join(dir, "bin", name)}, args...)...)
	return s.addLogs(dir, "said")
}

const nodeProgram = `
import express from 'express'; import morgan from 'morgan'; import pino from 'pino-http'; import fastify from 'fastify';
const [, , name, host, port] = process.argv;
if (name === 'fastify') {
  const app = fastify({logger: {stream: process.stdout}});
  app.all('/*', async () => 'hello');
  app.setNotFoundHandler(async (request, reply) => { reply.code(200); return 'hello'; });
  app.listen({host, port: Number(port)});
  process.on('SIGTERM', () => app.close().then(() => process.exit()));
} else {
  const app = express();
  app.use(name === 'pino' ? pino() : morgan('combined'));
  app.use((request, response) => response.send('hello'));
  const server = app.listen(Number(port), host);
  process.on('SIGTERM', () => server.close(() => process.exit())); // it logs after its answers
}
`

func startNode(t *testing.T, name string) *server {
	dir, addr := t.TempDir(), freeAddr(t)
	install := testrun.Command(t, "npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", dir,
		"express@5.3.0", "morgan@1.12.1", "pino-http@11.0.0", "fastify@5.12.8")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	writeFiles(t, dir, map[string]string{"server.mjs": nodeProgram})
	host, port, _ := net.SplitHostPort(addr)
	s := &server{addr: addr}
	s.end = start(t, addr, dir, syscall.SIGTERM, "node", "server.mjs", name, host, port)
	return s.addLogs(dir, "said")
}

// startTomcat starts the Tomcat of Debian's libtomcat10-java and libtomcat10-embed-java.
func startTomcat(t *testing.T) *server {
	const jars = "/usr/share/java/tomcat10-embed-core.jar:/usr/share/java/tomcat10-annotations-api.jar"
	testrun.Program(t, "javac") // java compiles the file
	dir, addr := t.TempDir(), freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	writeFiles(t, dir, map[string]string{"App.java": `
import jakarta.servlet.http.*;
import org.apache.catalina.startup.Tomcat;
import org.apache.catalina.valves.*;

public class App {
    static class Says extends HttpServlet {
        @Override protected void service(HttpServletRequest r, HttpServletResponse w) throws java.io.IOException {
            w.getWriter().print("hello");
        }
    }
    static void log(Tomcat tomcat, AbstractAccessLogValve v, String pattern, String name, String dir) {
        AccessLogValve file = (AccessLogValve) v;
        file.setPattern(pattern);
        file.setDirectory(dir);
        file.setPrefix(name);
        file.setSuffix(".log");
        file.setRotatable(false);
        tomcat.getHost().getPipeline().addValve(file);
    }
    public static void main(String[] args) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(args[0]);
        tomcat.setPort(Integer.parseInt(args[1]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        log(tomcat, new JsonAccessLogValve(), "combined", "json", args[0]);
        log(tomcat, new AccessLogValve(), "combined", "combined", args[0]);
        var context = tomcat.addContext("", args[0]);
        Tomcat.addServlet(context, "all", new Says());
        context.addServletMappingDecoded("/", "all");
        tomcat.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try { tomcat.stop(); tomcat.destroy(); } catch (Exception e) { e.printStackTrace(); }
        }));
        tomcat.getServer().await();
    }
}
`})
	s := &server{addr: addr, loose: true}
	s.end = start(t, addr, dir, syscall.SIGTERM, "java", "-cp", jars, "App.java", dir, port)
	return s.addLogs(dir, "json.log", "combined.log")
}

func startArmeria(t *testing.T) *server {
	if !testrun.Has("mvn") {
		t.Skip("mvn is not on the PATH: it gets Armeria")
	}
	dir, addr := t.TempDir(), freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	writeFiles(t, dir, map[string]string{
		"pom.xml": `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>a</groupId><artifactId>a</artifactId><version>1</version>
<properties><maven.compiler.source>17</maven.compiler.source>
<maven.compiler.target>17</maven.compiler.target></properties>
<dependencies>
<dependency><groupId>com.linecorp.armeria</groupId><artifactId>armeria</artifactId>
<version>1.33.4</version></dependency>
<dependency><groupId>ch.qos.logback</groupId><artifactId>logback-classic</artifactId>
<version>1.2.13</version></dependency>
</dependencies></project>`,
		"src/main/resources/logback.xml": `<configuration>
<appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d{HH:mm:ss.SSS} [%thread] %-5level %logger{36} - %msg%n</pattern></encoder></appender>
<logger name="com.linecorp.armeria.logging.access" level="info"><appender-ref ref="out"/></logger>
<root level="off"/></configuration>`,
		"src/main/java/App.java": `
import com.linecorp.armeria.common.*;
import com.linecorp.armeria.server.*;
import com.linecorp.armeria.server.logging.*;

public class App {
    public static void main(String[] args) throws Exception {
        Server server = Server.builder()
            .http(new java.net.InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])))
            .service("prefix:/", (context, request) -> HttpResponse.of("hello"))
            .accessLogWriter(AccessLogWriter.combined(), true).build();
        server.closeOnJvmShutdown();
        server.start().join();
    }
}
`,
	})
	build := testrun.Command(t, "mvn", "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=classes")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("mvn: %v\n%s", err, out)
	}
	classes, err := os.ReadFile(filepath.Join(dir, "classes"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: addr, loose: true}
	s.end = start(t, addr, dir, syscall.SIGTERM, "java", "-cp", "target/classes:"+string(classes), "App", port)
	return s.addLogs(dir, "said")
}

func startActix(t *testing.T) *server {
	if !testrun.Has("cargo") {
		t.Skip("cargo is not on the PATH: it builds actix")
	}
	dir, addr := t.TempDir(), freeAddr(t)
	writeFiles(t, dir, map[string]string{
		"Cargo.toml": `[package]
name = "logs"
version = "0.1.0"
edition = "2021"

[dependencies]
actix-web = { version = "=4.18.1", default-features = false, features = ["macros"] }
env_logger = "=0.11.12"
`,
		"src/main.rs": `use actix_web::{middleware::Logger, web, App, HttpResponse, HttpServer};

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    env_logger::init_from_env(env_logger::Env::new().default_filter_or("actix_web=info"));
    let addr = std::env::args().nth(1).unwrap();
    HttpServer::new(|| {
        App::new()
            .wrap(Logger::default())
            .default_service(web::to(|| async { HttpResponse::Ok().body("hello") }))
    })
    .workers(1)
    .bind(addr)?
    .run()
    .await
}
`,
	})
	build := testrun.Command(t, "cargo", "build", "-q")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cargo: %v\n%s", err, out)
	}
	s := &server{addr: addr, loose: true}
	s.end = start(t, addr, dir, syscall.SIGTERM, filepath.Join(dir, "target", "debug", "logs"), addr)
	return s.addLogs(dir, "said")
}
