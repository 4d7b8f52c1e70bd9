package examples

import (
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// from returns a client of another address of this machine.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	base := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: base}
}

// Each system limits one client by the rule that counts clients. Meanwhile another one is served.
func TestALimitedClientOfASystemLimitsNoOther(t *testing.T) {
	type clients struct {
		times    int // how often the limited client asks at most until it is denied
		status   int // of its denial
		limited  func(i int) answer
		innocent func(i int) answer
	}
	rows := []struct {
		name string
		env  []string
		as   func(t *testing.T, url string) clients
	}{
		{"apigateway", []string{"POLICY=" + policyOf(t, "apigateway",
			"token-bucket 10/second burst 20", "token-bucket 3/day burst 3")},
			func(t *testing.T, url string) clients {
				as := func(key string) func(int) answer {
					return func(int) answer { return send(t, "GET", url+"/prod/pets", "", "X-API-Key", key) }
				}
				return clients{4, 429, as("k-basic"), as("k-gold")}
			}},
		{"cloudflare", []string{"BLOCK=ban 20/1m for 10m"}, func(t *testing.T, url string) clients {
			as := func(client *http.Client) func(int) answer {
				return func(int) answer { return sendBy(t, client, "GET", url, "") }
			}
			return clients{21, 429, as(http.DefaultClient), as(from(t, "127.0.0.2"))}
		}},
		{"crawlers", nil, func(t *testing.T, url string) clients {
			as := func(client *http.Client) func(int) answer {
				return func(int) answer { return sendBy(t, client, "GET", url, "") }
			}
			return clients{11, 429, as(http.DefaultClient), as(from(t, "127.0.1.1"))} // of another network
		}},
		{"discord", nil, func(t *testing.T, url string) clients {
			return clients{50, 429,
				func(int) answer { return asBot(t, "ann", "POST", url+"/channels/1/messages") },
				func(i int) answer { return asBot(t, "bob", "POST", url+"/channels/"+strconv.Itoa(i)+"/messages") }}
		}},
		{"envoy", []string{ofEnvoy(t)}, func(t *testing.T, url string) clients {
			as := func(client *http.Client) func(int) answer {
				return func(int) answer { return sendBy(t, client, "POST", url+"/login", "") }
			}
			return clients{6, 429, as(http.DefaultClient), as(from(t, "127.0.0.2"))}
		}},
		{"github", nil, func(t *testing.T, url string) clients {
			as := func(client *http.Client) func(int) answer {
				return func(int) answer { return sendBy(t, client, "GET", url+issues, "") }
			}
			return clients{61, 403, as(http.DefaultClient), as(from(t, "127.0.0.2"))}
		}},
		{"llm", nil, func(t *testing.T, url string) clients {
			as := func(tenant string) func(int) answer {
				return func(int) answer { return complete(t, url, tenant, "hello world", 400) }
			}
			return clients{100, 429, as("trial"), as("pro")}
		}},
		{"login", nil, func(t *testing.T, url string) clients {
			as := func(client *http.Client, password string) func(int) answer {
				return func(i int) answer {
					user := "ann"
					if password == "guess" {
						user = "user" + strconv.Itoa(i)
					}
					return sendBy(t, client, "POST", url+"/login", "user="+user+"&password="+password,
						"Content-Type", "application/x-www-form-urlencoded")
				}
			}
			return clients{26, 429, as(http.DefaultClient, "guess"), as(from(t, "127.0.0.2"), "right")}
		}},
		{"nginx", []string{"PERIOD=10m"}, func(t *testing.T, url string) clients {
			routes := []string{"/plain", "/nodelay", "/burst", "/delay"}
			other := from(t, "127.0.0.2")
			return clients{22, 503,
				func(int) answer { return send(t, "GET", url+"/nodelay", "") },
				func(i int) answer { return sendBy(t, other, "GET", url+routes[i], "") }}
		}},
		{"registry", nil, func(t *testing.T, url string) clients {
			as := func(client *http.Client) func(int) answer {
				return func(int) answer { return sendBy(t, client, "GET", url+"/v2/app/manifests/1", "") }
			}
			return clients{61, 429, as(http.DefaultClient), as(from(t, "127.0.0.2"))}
		}},
		{"stripe", []string{"PERIOD=1m", "WORKERS=1000"}, func(t *testing.T, url string) clients {
			as := func(key string) func(int) answer {
				return func(int) answer { return asKey(t, key, "GET", url+"/v1/customers") }
			}
			return clients{150, 429, as("live_1"), as("live_2")}
		}},
		{"telemetry", nil, func(t *testing.T, url string) clients {
			as := func(client *http.Client) func(int) answer {
				return func(int) answer { return sendBy(t, client, "POST", url+"/v1/traces", "{}") }
			}
			return clients{100, 429, as(http.DefaultClient), as(from(t, "127.0.0.2"))}
		}},
	}
	var names []string
	for _, c := range rows {
		names = append(names, filepath.Join("systems", c.name))
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, c.name, func(t *testing.T, url string) {
				both := c.as(t, url)
				status := 0
				for i := 0; i < both.times && status != both.status; i++ {
					status = both.limited(i).StatusCode
				}
				if status != both.status {
					t.Fatalf("the last of %d requests was answered %d, want %d", both.times, status, both.status)
				}
				for i := range 4 {
					both.limited(both.times + i) // mostly denied: a limit of seconds may have returned a unit
					both.innocent(i).want(t, http.StatusOK)
				}
			}, c.env...)
		})
	}
	if all := systems(t); !slices.Equal(names, all) {
		t.Errorf("the systems are %v, and %v have rows", all, names)
	}
}
