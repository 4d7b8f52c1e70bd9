package redisbackend_test

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// spreadingProxy passes commands on to several servers, and ignores hash tags unless knowsTags. byName:
// a command with a key goes to a server by the name of the key; otherwise each connection goes to
// the next server.
type spreadingProxy struct {
	servers   []string
	byName    bool
	knowsTags bool
	next      atomic.Int64
}

// start returns its address.
func (p *spreadingProxy) start(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return l.Addr().String()
}

func (p *spreadingProxy) serve(conn net.Conn) {
	defer conn.Close()
	var servers []net.Conn
	var replies []*bufio.Reader
	for _, addr := range p.servers {
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer server.Close()
		servers, replies = append(servers, server), append(replies, bufio.NewReader(server))
	}
	own := int(p.next.Add(1)) % len(servers)
	for commands := bufio.NewReader(conn); ; {
		command, words, err := readCommand(commands)
		if err != nil {
			return
		}
		to := own
		if p.byName {
			if to = 0; len(words) > 3 {
				to = int(crc32.ChecksumIEEE([]byte(p.hashed(words[3])))) % len(servers)
			}
		}
		if _, err := servers[to].Write(command); err != nil {
			return
		}
		var reply bytes.Buffer
		if err := copyReply(&reply, replies[to]); err != nil {
			return
		}
		if _, err := conn.Write(reply.Bytes()); err != nil {
			return
		}
	}
}

func (p *spreadingProxy) hashed(name string) string {
	if _, rest, ok := strings.Cut(name, "{"); ok && p.knowsTags {
		name, _, _ = strings.Cut(rest, "}")
	}
	return name
}

// readCommand reads an array of strings.
func readCommand(r *bufio.Reader) (command []byte, words []string, err error) {
	var b bytes.Buffer
	if err := copyReply(&b, r); err != nil {
		return nil, nil, err
	}
	parts := strings.Split(b.String(), "\r\n")
	for i := 2; i < len(parts); i += 2 {
		words = append(words, parts[i])
	}
	return b.Bytes(), words, nil
}

// copyReply copies one value of RESP.
func copyReply(to *bytes.Buffer, from *bufio.Reader) error {
	l, err := from.ReadString('\n')
	if err != nil {
		return err
	}
	to.WriteString(l)
	n, _ := strconv.Atoi(strings.TrimSpace(l[1:]))
	switch l[0] {
	case '$', '=':
		if n >= 0 {
			_, err = io.CopyN(to, from, int64(n)+2)
		}
		return err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil
	}
	for range n {
		if err := copyReply(to, from); err != nil {
			return err
		}
	}
	return nil
}

// checkThrough checks a client of addr with a hash tag, or without one.
func checkThrough(t testing.TB, addr, tag string) error {
	t.Helper()
	b := redisbackend.MustNewBare(newClient(t, addr), redisbackend.BareOptions{HashTag: tag})
	return b.Check(t.Context())
}

// lookThrough returns what decisions through a proxy fail with after one question in operation.
func lookThrough(t testing.TB, addr, tag string) error {
	t.Helper()
	discard := slog.New(slog.DiscardHandler)
	b := redisbackend.MustNewBare(newClient(t, addr),
		redisbackend.BareOptions{HashTag: tag, Logger: discard})
	defer b.Close()
	redisbackend.WaitForEver(b)
	return redisbackend.Look(b)
}

// saysThat fails unless err has a text; "" is for no error.
func saysThat(t testing.TB, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

type proxyCase struct {
	what      string
	proxy     *spreadingProxy
	tag, want string
}

// proxiesBefore returns proxies before two servers, and what is to be found of them.
func proxiesBefore(two []string) []proxyCase {
	return []proxyCase{
		{"one server", &spreadingProxy{servers: two[:1]}, "", ""},
		{"one server, by names", &spreadingProxy{servers: two[:1], byName: true}, "t", ""},
		{"a round robin", &spreadingProxy{servers: two}, "", "spreads connections over 2 servers"},
		{"a round robin, tagged", &spreadingProxy{servers: two}, "t", "spreads connections over 2 servers"},
		{"names", &spreadingProxy{servers: two, byName: true}, "", "set Options.HashTag"},
		{"names, tagged", &spreadingProxy{servers: two, byName: true}, "t", "enable_hashtagging"},
		{"tags, no tag", &spreadingProxy{servers: two, byName: true, knowsTags: true}, "", "set Options.HashTag"},
		{"tags, tagged", &spreadingProxy{servers: two, byName: true, knowsTags: true}, "t", ""},
	}
}

func TestCheckFindsAProxyThatSpreads(t *testing.T) {
	t.Parallel()
	two := []string{startRedis(t).addr, startRedis(t).addr}
	for range testrun.Sized(5, 100) {
		for _, c := range proxiesBefore(two) {
			saysThat(t, c.what, checkThrough(t, c.proxy.start(t), c.tag), c.want)
		}
	}
}

func TestOneQuestionInOperationFindsAProxyThatSpreads(t *testing.T) {
	t.Parallel()
	two := []string{startRedis(t).addr, startRedis(t).addr}
	discard := slog.New(slog.DiscardHandler)
	for range testrun.Sized(5, 100) {
		for _, c := range proxiesBefore(two) {
			client := newClient(t, c.proxy.start(t))
			b := redisbackend.MustNewBare(client, redisbackend.BareOptions{HashTag: c.tag, Logger: discard})
			redisbackend.WaitForEver(b)
			saysThat(t, c.what, redisbackend.Look(b), c.want)
			charges := []backends.Charge{charge("s", "k", limits.FixedWindow(limits.PerDay(5)), 1)}
			saysThat(t, c.what+", a decision", b.Take(t.Context(), charges, make([]limits.Decision, 1)), c.want)
			saysThat(t, c.what+", a look", b.Peek(t.Context(), charges, make([]limits.Decision, 1)), c.want)
			ok(t, b.Close())
		}
	}
}

// Each question has connections of its own, which tell the server nothing that a user with few
// rights may not say.
func TestAQuestionInOperationIsNotRefused(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	admin := newClient(t, addr)
	for _, rights := range []string{aclDecide, aclDecide + " " + aclCheck} {
		prefix := uniquePrefix()
		user(t, admin, prefix, rights)
		ok(t, admin.Do(t.Context(), "ACL", "LOG", "RESET").Err())
		ok(t, admin.ConfigResetStat(t.Context()).Err())
		client := redis.NewClient(&redis.Options{Addr: addr, Username: "limiter", Password: "secret"})
		defer client.Close()
		b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
		saysThat(t, rights, redisbackend.Look(b), "")
		ok(t, b.Close())
		refused, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
		ok(t, err)
		info := admin.Info(t.Context(), "all").Val()
		if !strings.Contains(info, "cmdstat_eval:") {
			t.Errorf("%s: no question was asked", rights)
		}
		// Redis 6.2 cannot be asked what it allows, and refuses INFO once.
		canBeAsked, err := admin.Eval(t.Context(), "return redis.acl_check_cmd and 1 or 0", nil).Int()
		ok(t, err)
		if canBeAsked == 1 && (len(refused) > 0 || strings.Contains(info, "errorstat_")) {
			t.Errorf("%s: %v, %s", rights, refused, info)
		}
	}
}

// A Ring is several servers; each of its shards is one.
func TestCheckLooksForAProxyBehindEachShard(t *testing.T) {
	t.Parallel()
	three := []string{startRedis(t).addr, startRedis(t).addr, startRedis(t).addr}
	for want, shard := range map[string]string{
		"":                                   three[2],
		"spreads connections over 2 servers": (&spreadingProxy{servers: three[1:]}).start(t),
	} {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": three[0], "b": shard}})
		defer ring.Close()
		err := redisbackend.MustNewBare(ring, redisbackend.BareOptions{}).Check(t.Context())
		saysThat(t, "a shard at "+shard, err, want)
	}
}

// Two ids of which the first does not come back are no spreading.
func TestAFailoverDuringCheckIsNoProxy(t *testing.T) {
	for again, want := range map[string]string{"a": "2 servers", "b": "", "c": "", "": ""} {
		err := redisbackend.JudgeIDs([]string{"a", "a", "b", "b"}, again)
		saysThat(t, "then "+again, err, want)
	}
	saysThat(t, "a server without an id", redisbackend.JudgeIDs([]string{"", "", ""}, ""), "")
}

// The proxies themselves.
func TestRealProxiesThatSpreadAreFound(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "Envoy and HAProxy")
	two := []string{startRedis(t).addr, startRedis(t).addr}
	cluster := startCluster(t)
	var masters []string
	for _, m := range cluster.masters {
		masters = append(masters, m.addr)
	}
	for _, c := range []struct {
		what, addr, tag, want string
	}{
		{"Envoy", startEnvoy(t, two, "MAGLEV", false), "", "set Options.HashTag"},
		{"Envoy, tagged", startEnvoy(t, two, "MAGLEV", false), "t", "set enable_hashtagging"},
		{"Envoy that knows tags", startEnvoy(t, two, "MAGLEV", true), "", "set Options.HashTag"},
		{"Envoy that knows tags, tagged", startEnvoy(t, two, "MAGLEV", true), "t", ""},
		{"Envoy, one server", startEnvoy(t, two[:1], "MAGLEV", false), "", ""},
		{"Envoy that knows the Cluster", startEnvoy(t, masters, "CLUSTER_PROVIDED", false), "", ""},
		{"HAProxy", startBalancer(t, two), "t", "spreads connections over 2 servers"},
		{"HAProxy, one server", startBalancer(t, two[:1]), "t", ""},
	} {
		until(t, c.what+" passes on", func() bool {
			client := redis.NewClient(&redis.Options{Addr: c.addr, MaxRetries: -1})
			defer client.Close()
			return client.Get(t.Context(), "absent").Err() == redis.Nil
		})
		for range 100 {
			saysThat(t, c.what, checkThrough(t, c.addr, c.tag), c.want)
			saysThat(t, c.what+", in operation", lookThrough(t, c.addr, c.tag), c.want)
		}
	}
}

// runProxy starts a program, and ends it with the test.
func runProxy(t testing.TB, name string, args ...string) {
	t.Helper()
	command := testrun.Command(t, name, args...)
	ok(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
}

func configFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	ok(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// startEnvoy starts Envoy with redis_proxy before servers.
func startEnvoy(t testing.TB, servers []string, policy string, tags bool) string {
	t.Helper()
	addr := freeAddr(t)
	endpoint := func(addr string) string {
		host, port, _ := net.SplitHostPort(addr)
		return fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
	}
	kind := "type: STATIC"
	if policy == "CLUSTER_PROVIDED" {
		kind = `cluster_type:
      name: envoy.clusters.redis
      typed_config:
        "@type": type.googleapis.com/google.protobuf.Struct
        value: {cluster_refresh_rate: 1s}`
	}
	var endpoints []string
	for _, s := range servers {
		endpoints = append(endpoints, "{endpoint: {address: "+endpoint(s)+"}}")
	}
	path := configFile(t, "envoy.yaml", fmt.Sprintf(`static_resources:
  listeners:
  - address: %s
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
          stat_prefix: r
          settings: {op_timeout: 5s, enable_hashtagging: %v}
          prefix_routes: {catch_all_route: {cluster: r}}
  clusters:
  - name: r
    lb_policy: %s
    %s
    connect_timeout: 5s
    load_assignment:
      cluster_name: r
      endpoints: [{lb_endpoints: [%s]}]
`, endpoint(addr), tags, policy, kind, strings.Join(endpoints, ", ")))
	runProxy(t, "envoy", "-c", path, "--use-dynamic-base-id", "--concurrency", "2", "-l", "error")
	return addr
}

// startBalancer starts HAProxy, which sends each connection to the next server.
func startBalancer(t testing.TB, servers []string) string {
	t.Helper()
	addr := freeAddr(t)
	var lines strings.Builder
	for i, s := range servers {
		fmt.Fprintf(&lines, "  server s%d %s\n", i, s)
	}
	path := configFile(t, "haproxy.cfg", fmt.Sprintf(`defaults
  mode tcp
  timeout connect 5s
  timeout client 1m
  timeout server 1m
listen r
  bind %s
  balance roundrobin
%s`, addr, &lines))
	runProxy(t, "haproxy", "-f", path, "-db")
	return addr
}
