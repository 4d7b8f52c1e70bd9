package topology

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Pair is a master and its replica, and what clients reach them by.
type Pair struct {
	Master, Replica *Server
	before          *Server // a Sentinel or HAProxy
	sentinel        *redis.SentinelClient
}

// startPair starts a master and a replica that follows it.
func startPair() (*Pair, error) {
	p := new(Pair)
	err := p.start()
	if err != nil {
		p.Close()
	}
	return p, err
}

func (p *Pair) start() (err error) {
	if p.Master, err = startServer(); err != nil {
		return err
	}
	if p.Replica, err = startServer("--replicaof", p.Master.Host, p.Master.Port); err != nil {
		return err
	}
	for _, s := range []*Server{p.Master, p.Replica} {
		if err := s.allow(); err != nil {
			return err
		}
	}
	return until("the replica follows", func() bool {
		info := p.Replica.Admin.Info(context.Background(), "replication").Val()
		return strings.Contains(info, "master_link_status:up")
	})
}

// StartSentinel starts a pair that a Sentinel watches under the name limits. It takes a server that
// has been silent for a time for dead.
func StartSentinel(silent time.Duration) (*Pair, error) {
	p, err := startPair()
	if err != nil {
		return nil, err
	}
	if err := p.watch(silent); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Pair) watch(silent time.Duration) (err error) {
	if p.before, err = newServer(); err != nil {
		return err
	}
	config, err := p.before.write("sentinel.conf", fmt.Sprintf(`port %s
bind 127.0.0.1
sentinel monitor limits %s %s 1
sentinel down-after-milliseconds limits %d
sentinel failover-timeout limits 5000
`, p.before.Port, p.Master.Host, p.Master.Port, silent.Milliseconds()))
	if err != nil {
		return err
	}
	if err := p.before.start(Program, config, "--sentinel"); err != nil {
		return err
	}
	p.sentinel = redis.NewSentinelClient(&redis.Options{Addr: p.before.Addr, DisableIdentity: true})
	return until("Sentinel knows the replica", func() bool {
		replicas := p.sentinel.Replicas(context.Background(), "limits").Val()
		return len(replicas) == 1 && replicas[0]["flags"] == "slave" &&
			replicas[0]["master-link-status"] == "ok"
	})
}

// StartHAProxy starts a pair behind HAProxy, which sends clients to the server whose role is
// master. It asks each of them 5 times a second.
func StartHAProxy() (*Pair, error) {
	p, err := startPair()
	if err != nil {
		return nil, err
	}
	if err := p.balance(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Pair) balance() (err error) {
	if p.before, err = newServer(); err != nil {
		return err
	}
	config, err := p.before.write("haproxy.cfg", fmt.Sprintf(`defaults
  mode tcp
  timeout connect 1s
  timeout client 1m
  timeout server 1m
frontend redis
  bind %s
  default_backend masters
backend masters
  option tcp-check
  tcp-check send info\ replication\r\n
  tcp-check expect string role:master
  default-server check inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions
  server a %s
  server b %s
`, p.before.Addr, p.Master.Addr, p.Replica.Addr))
	if err != nil {
		return err
	}
	if err := p.before.start("haproxy", "-db", "-f", config); err != nil {
		return err
	}
	return until("HAProxy leads to the master", p.before.LeadsToMaster)
}

// Address returns the address of the master that Sentinel tells clients.
func (p *Pair) Address() string {
	addr, err := p.sentinel.GetMasterAddrByName(context.Background(), "limits").Result()
	if err != nil || len(addr) != 2 {
		return ""
	}
	return net.JoinHostPort(addr[0], addr[1])
}

// Before is the Sentinel or HAProxy.
func (p *Pair) Before() *Server { return p.before }

// Promote makes the replica a master, as an operator would.
func (p *Pair) Promote() error {
	return p.Replica.Admin.Do(context.Background(), "replicaof", "no", "one").Err()
}

// Close ends all servers.
func (p *Pair) Close() {
	if p.sentinel != nil {
		p.sentinel.Close()
	}
	for _, s := range []*Server{p.before, p.Master, p.Replica} {
		if s != nil {
			s.close()
		}
	}
}
