package topologies

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-go/weir/redisbackend"
)

// site is servers in a topology, and the way of weir to them.
type site struct {
	data []*server
	open func(redisbackend.Options) (*redisbackend.Backend, error)
	// replace is called once the server of a key has been killed. It does what an administrator
	// does, and returns when the servers can decide the key again. nil: the administrator starts the
	// dead server again, once the process has noticed that it is gone.
	replace func(t testing.TB, dead *server)
	// allow gives the user its rights.
	allow   func(t testing.TB, servers []*server)
	tag     string // the hash tag that weir is given
	spreads bool   // the proxy ignores the tag, so each server admits a limit
	learns  bool   // weir learns by some CROSSSLOT that the server is a Cluster
	check   string // part of what Check says; "": nothing
}

// rights is what docs/redis.md has an administrator allow, without heartbeats and announcements.
const rights = "on >secret ~weir:* -@all +evalsha +eval +time +get +exists +getrange +set +del " +
	"+strlen +setrange +pexpire +zadd +zrem +zcard +zcount +zrange +zremrangebyrank +zscore +info +script|load"

// clusterRights is what it adds for a Cluster.
const clusterRights = "+cluster|slots +cluster|info"

// user is who weir connects as.
type user struct {
	name string
	url  *url.Userinfo // nil: the default user
}

var users = []user{
	{"default user", nil},
	{"documented rights", url.UserPassword("limiter", "secret")},
}

// allow returns a function that gives the user its rights, and more, on some servers.
func (u user) allow(more string) func(testing.TB, []*server) {
	return func(t testing.TB, servers []*server) {
		t.Helper()
		if u.url == nil {
			return
		}
		for _, s := range servers {
			rules := strings.Fields("reset " + rights + " " + more)
			ok(t, s.admin.ACLSetUser(t.Context(), u.url.Username(), rules...).Err())
		}
	}
}

// credentials returns user and password, empty for the default user.
func (u user) credentials() (name, password string) {
	password, _ = u.url.Password()
	return u.url.Username(), password
}

// topologies are what people build around Redis.
var topologies = []struct {
	name  string
	start func(t testing.TB, program string, u user) *site
}{
	{"one server", oneServer},
	{"Cluster of three masters", cluster},
	{"Sentinel", sentinel},
	{"HAProxy, `role:master`", haproxy},
	{"Envoy, one server", func(t testing.TB, program string, u user) *site {
		return envoy(t, program, u, 1, true)
	}},
	{"Envoy, two servers, `enable_hashtagging`", func(t testing.TB, program string, u user) *site {
		return envoy(t, program, u, 2, true)
	}},
	{"Envoy, two servers, as it comes", func(t testing.TB, program string, u user) *site {
		return envoy(t, program, u, 2, false)
	}},
	{"Envoy, `envoy.clusters.redis`, hash tag", func(t testing.TB, program string, u user) *site {
		return envoyCluster(t, program, u, "t")
	}},
	{"Envoy, `envoy.clusters.redis`", func(t testing.TB, program string, u user) *site {
		return envoyCluster(t, program, u, "")
	}},
	{"Ring of three shards", ring},
}

// byURL returns an open of a URL.
func byURL(u url.URL) func(redisbackend.Options) (*redisbackend.Backend, error) {
	return func(o redisbackend.Options) (*redisbackend.Backend, error) {
		return redisbackend.Open(u.String(), o)
	}
}

func oneServer(t testing.TB, program string, u user) *site {
	s := startServer(t, program)
	return &site{
		data:  []*server{s},
		allow: u.allow(""),
		open:  byURL(url.URL{Scheme: "redis", User: u.url, Host: s.addr}),
	}
}

// pair returns a master and its replica.
func pair(t testing.TB, program string) []*server {
	master, replica := startServer(t, program), startServer(t, program)
	replica.follow(t, master)
	return []*server{master, replica}
}

// promoted waits until one of the servers has become a master.
func promoted(t testing.TB, servers []*server, masters int) {
	t.Helper()
	until(t, "a replica has taken over", func() bool {
		n := 0
		for _, s := range servers {
			if s.isMaster(t) {
				n++
			}
		}
		return n == masters
	})
}

func sentinel(t testing.TB, program string, u user) *site {
	data := pair(t, program)
	addr := freeAddr(t)
	config := filepath.Join(t.TempDir(), "sentinel.conf") // which it rewrites
	ok(t, os.WriteFile(config, fmt.Appendf(nil, `
port %s
bind 127.0.0.1
sentinel monitor limits 127.0.0.1 %s 1
sentinel down-after-milliseconds limits 1000
sentinel failover-timeout limits 5000
`, portOf(addr), portOf(data[0].addr)), 0o600))
	watcher := newAt(t, program, addr, config, "--sentinel")
	watcher.start(t)
	until(t, "Sentinel knows the replica", func() bool {
		text, _ := watcher.admin.Info(t.Context(), "sentinel").Result()
		return strings.Contains(text, "slaves=1")
	})
	values := url.Values{"master_name": {"limits"}}
	if u.url != nil {
		name, password := u.credentials()
		values.Set("username", name)
		values.Set("password", password)
	}
	return &site{
		data: data, allow: u.allow(""),
		open: byURL(url.URL{Scheme: "redis", Host: addr, Path: "/0", RawQuery: values.Encode()}),
		replace: func(t testing.TB, dead *server) {
			promoted(t, data, 1)
			until(t, "Sentinel names the new master", func() bool {
				asked := watcher.admin.Do(t.Context(), "sentinel", "get-master-addr-by-name", "limits")
				address, err := asked.StringSlice()
				return err == nil && len(address) == 2 && address[1] != portOf(dead.addr)
			})
		},
	}
}

func haproxy(t testing.TB, program string, u user) *site {
	data := pair(t, program)
	addr := freeAddr(t)
	var servers strings.Builder
	for i, s := range data {
		fmt.Fprintf(&servers, "  server s%d %s check inter 500ms fall 2 rise 1\n", i, s.addr)
	}
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	ok(t, os.WriteFile(config, fmt.Appendf(nil, `
defaults
  mode tcp
  timeout connect 1s
  timeout client 1h
  timeout server 1h
listen redis
  bind %s
  option tcp-check
  tcp-check send "info replication\r\n"
  tcp-check expect string role:master
  default-server on-marked-down shutdown-sessions
%s`, addr, servers.String()), 0o600))
	started(t, addr, "haproxy", "-db", "-f", config)
	proxied := &server{admin: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1,
		ConnMaxLifetime: time.Nanosecond})} // each question over a connection of its own
	defer proxied.admin.Close()
	masters := 0
	until(t, "HAProxy has seen that one of them is a replica", func() bool {
		masters++
		if proxied.info(t, "replication", "role") != "master" {
			masters = 0
		}
		return masters == 20
	})
	return &site{
		data: data, allow: u.allow(""),
		open: byURL(url.URL{Scheme: "redis", User: u.url, Host: addr}),
		replace: func(t testing.TB, dead *server) {
			for _, s := range data {
				if s != dead {
					ok(t, s.admin.ReplicaOf(t.Context(), "no", "one").Err())
				}
			}
			promoted(t, data, 1)
		},
	}
}

func ring(t testing.TB, program string, u user) *site {
	shards := make(map[string]string)
	var data []*server
	for i := range 3 {
		s := startServer(t, program)
		data, shards[strconv.Itoa(i)] = append(data, s), s.addr
	}
	name, password := u.credentials()
	return &site{
		data: data, allow: u.allow("+ping"),
		open: func(o redisbackend.Options) (*redisbackend.Backend, error) {
			client := redis.NewRing(&redis.RingOptions{
				Addrs: shards, Username: name, Password: password, DisableIdentity: true,
				ContextTimeoutEnabled: true, MaxRetries: -1,
				NewClient: func(o *redis.Options) *redis.Client {
					o.DialerRetries = 1
					o.MaintNotificationsConfig = &maintnotifications.Config{
						Mode: maintnotifications.ModeDisabled,
					}
					return redis.NewClient(o)
				},
			})
			t.Cleanup(func() { client.Close() })
			return redisbackend.New(client, o)
		},
		replace: func(testing.TB, *server) {}, // the other shards have the keys
	}
}

// freePair returns a free address and the port 10,000 above, at which nodes of Redis 6 talk to
// each other.
func freePair(t testing.TB) (addr, bus string) {
	t.Helper()
	until(t, "two such ports are free", func() bool {
		addr = freeAddr(t)
		port, err := strconv.Atoi(portOf(addr))
		ok(t, err)
		bus = strconv.Itoa(port + 10_000)
		l, err := net.Listen("tcp", "127.0.0.1:"+bus)
		if err == nil {
			l.Close()
		}
		return err == nil && port < 20_000 // those of outgoing connections are higher
	})
	return addr, bus
}

// nodes starts a Cluster of three masters with a replica each, which takes a node for dead once it
// has been silent for a second and a half.
func nodes(t testing.TB, program string) []*server {
	ctx := t.Context()
	data := make([]*server, 6)
	buses := make([]string, 6)
	isOld := strings.HasPrefix(title(t, program), "Redis 6.")
	for i := range data {
		args := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1500",
			"--cluster-replica-validity-factor", "0", "--repl-ping-replica-period", "1"}
		if isOld {
			var addr string
			addr, buses[i] = freePair(t)
			data[i] = newAt(t, program, addr, append(arguments(addr, t.TempDir()), args...)...)
			data[i].start(t)
			continue
		}
		buses[i] = portOf(freeAddr(t))
		data[i] = startServer(t, program, append(args, "--cluster-port", buses[i])...)
	}
	for i, s := range data[:3] {
		ok(t, s.admin.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		ok(t, s.admin.ClusterAddSlotsRange(ctx, i*16384/3, (i+1)*16384/3-1).Err())
	}
	for i, s := range data[1:] {
		port := portOf(s.addr)
		ok(t, data[0].admin.Do(ctx, "cluster", "meet", "127.0.0.1", port, buses[i+1]).Err())
	}
	for _, s := range data {
		until(t, "every node knows the others", func() bool {
			known := s.admin.ClusterNodes(ctx).Val()
			return strings.Count(known, " connected") == 6 && !strings.Contains(known, "handshake")
		})
	}
	for i, s := range data[3:] {
		id, err := data[i].admin.Do(ctx, "cluster", "myid").Text()
		ok(t, err)
		ok(t, s.admin.ClusterReplicate(ctx, id).Err())
	}
	for i, s := range data {
		until(t, "the Cluster is in order", func() bool {
			link := "state=online"
			if i >= 3 {
				link = "master_link_status:up"
			}
			return strings.Contains(s.admin.ClusterInfo(ctx).Val(), "cluster_state:ok") &&
				strings.Contains(s.admin.Info(ctx, "replication").Val(), link) &&
				strings.Count(s.admin.ClusterNodes(ctx).Val(), "slave ") == 3
		})
	}
	return data
}

func cluster(t testing.TB, program string, u user) *site {
	data := nodes(t, program)
	more := url.Values{"addr": {data[1].addr, data[2].addr}}
	return &site{
		data: data, allow: u.allow(clusterRights),
		open: byURL(url.URL{Scheme: "redis", User: u.url, Host: data[0].addr,
			RawQuery: more.Encode()}),
		replace: func(t testing.TB, _ *server) { promoted(t, data, 3) },
	}
}

func envoy(t testing.TB, program string, u user, servers int, tags bool) *site {
	var data []*server
	for range servers {
		data = append(data, startServer(t, program))
	}
	addr := runEnvoy(t, u, data, fmt.Sprintf("{op_timeout: 5s, enable_hashtagging: %v}", tags),
		"    type: STATIC\n    lb_policy: MAGLEV")
	s := &site{
		data: data, tag: "t", allow: u.allow(""),
		open: byURL(url.URL{Scheme: "redis", Host: addr}),
	}
	if servers > 1 && !tags {
		s.spreads, s.check = true, "a proxy spreads keys with one hash tag over 2 servers"
	}
	return s
}

// envoyCluster has Envoy know the Cluster, which its clients then take for one server.
func envoyCluster(t testing.TB, program string, u user, tag string) *site {
	data := nodes(t, program)
	addr := runEnvoy(t, u, data[:3],
		"{op_timeout: 5s, enable_hashtagging: true, enable_redirection: true}", `
    lb_policy: CLUSTER_PROVIDED
    cluster_type:
      name: envoy.clusters.redis
      typed_config:
        "@type": type.googleapis.com/google.protobuf.Struct
        value: {cluster_refresh_rate: 1s, cluster_refresh_timeout: 1s,
          redirect_refresh_interval: 1s, redirect_refresh_threshold: 1,
          failure_refresh_threshold: 1}`)
	return &site{
		data: data, tag: tag, learns: tag == "",
		allow:   u.allow(clusterRights),
		open:    byURL(url.URL{Scheme: "redis", Host: addr}),
		replace: func(t testing.TB, _ *server) { promoted(t, data, 3) },
	}
}

// runEnvoy starts an Envoy before servers, which logs in as u: its clients need no password.
func runEnvoy(t testing.TB, u user, servers []*server, settings, kind string) (addr string) {
	var endpoints, login strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&endpoints, "\n        - endpoint: {address: {socket_address: {address: 127.0.0.1, "+
			"port_value: %s}}}", portOf(s.addr))
	}
	if u.url != nil {
		name, password := u.credentials()
		fmt.Fprintf(&login, "\n        auth_username: {inline_string: %s}"+
			"\n        auth_password: {inline_string: %s}", name, password)
	}
	addr = freeAddr(t)
	config := filepath.Join(t.TempDir(), "envoy.yaml")
	const types = "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3."
	ok(t, os.WriteFile(config, fmt.Appendf(nil, `
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.redis_proxy
        typed_config:
          "@type": %sRedisProxy
          stat_prefix: redis
          settings: %s
          prefix_routes: {catch_all_route: {cluster: redis}}
  clusters:
  - name: redis
    connect_timeout: 1s
%s
    load_assignment:
      cluster_name: redis
      endpoints:
      - lb_endpoints:%s
    typed_extension_protocol_options:
      envoy.filters.network.redis_proxy:
        "@type": %sRedisProtocolOptions%s
`, portOf(addr), types, settings, kind, endpoints.String(), types, login.String()), 0o600))
	started(t, addr, "envoy", "-c", config, "--disable-hot-restart", "--concurrency", "2",
		"-l", "error")
	return addr
}

// several reports whether the keys lie on several masters.
func (s *site) several(t testing.TB) bool {
	masters := 0
	for _, server := range s.data {
		if server.isMaster(t) {
			masters++
		}
	}
	return masters > 1
}

// refusals counts what the servers have refused since they were told to count, by the error.
func (s *site) refusals(t testing.TB) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for _, server := range s.data {
		text, err := server.admin.Info(t.Context(), "errorstats").Result()
		ok(t, err)
		for line := range strings.Lines(text) {
			name, n, isCount := strings.Cut(strings.TrimSpace(line), ":count=")
			if isCount {
				count, err := strconv.Atoi(n)
				ok(t, err)
				counts[strings.TrimPrefix(name, "errorstat_")] += count
			}
		}
		log, err := server.admin.Do(t.Context(), "ACL", "LOG").Slice()
		ok(t, err)
		for _, entry := range log {
			counts["ACL LOG: "+object(entry)]++
		}
	}
	return counts
}

// object returns what an entry of ACL LOG was refused for.
func object(entry any) string {
	switch entry := entry.(type) {
	case map[any]any:
		return fmt.Sprint(entry["object"])
	case []any:
		for i := 0; i+1 < len(entry); i += 2 {
			if entry[i] == "object" {
				return fmt.Sprint(entry[i+1])
			}
		}
	}
	return fmt.Sprint(entry)
}

// count has the servers forget what they have refused so far.
func (s *site) count(t testing.TB) {
	t.Helper()
	for _, server := range s.data {
		ok(t, server.admin.Do(t.Context(), "ACL", "LOG", "RESET").Err())
		ok(t, server.admin.ConfigResetStat(t.Context()).Err())
	}
}

// scripts returns how many scripts the servers know, in all.
func (s *site) scripts(t testing.TB) (n int) {
	t.Helper()
	for _, server := range s.data {
		known, err := strconv.Atoi(server.info(t, "memory", "number_of_cached_scripts"))
		ok(t, err)
		n += known
	}
	return n
}

// seconds prints a time for a table.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
