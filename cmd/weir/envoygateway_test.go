//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patched is what a configuration of Envoy Gateway says of the service that it starts.
type patched struct {
	Provider struct {
		Kubernetes struct {
			RateLimitDeployment struct {
				Pod   struct{ Annotations map[string]string }
				Patch struct {
					Value struct {
						Spec struct{ Template struct{ Spec pod } }
					}
				}
			} `yaml:"rateLimitDeployment"`
		}
	}
}

type pod struct {
	Grace      int `yaml:"terminationGracePeriodSeconds"`
	Containers []struct {
		Name          string
		Command, Args []string
		Ready         probed `yaml:"readinessProbe"`
		Alive         probed `yaml:"livenessProbe"`
		Started       probed `yaml:"startupProbe"`
	}
}

type probed struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// envoy-gateway.sh beside the benchmarks has Envoy Gateway itself make the Deployment.
func TestWeirServesAsTheFileOfEnvoyGatewaySays(t *testing.T) {
	_, rest, _ := strings.Cut(string(read(t, "../../docs/envoy-gateway.md")), "```text\n# envoy-gateway.yaml\n")
	text, _, _ := strings.Cut(rest, "\n```")
	var file patched
	decode(t, []byte(text), &file)
	deployment := file.Provider.Kubernetes.RateLimitDeployment
	spec := deployment.Patch.Value.Spec.Template.Spec
	if len(spec.Containers) != 1 || spec.Containers[0].Name != "envoy-ratelimit" ||
		!slices.Equal(spec.Containers[0].Command, []string{"/weir"}) {
		t.Fatalf("%+v", spec)
	}
	weir := spec.Containers[0]
	c := newServe()
	if err := c.ParseFlags(weir.Args[1:]); err != nil {
		t.Fatal(err)
	}
	value := func(name string) string { return c.Flags().Lookup(name).Value.String() }
	_, port, _ := strings.Cut(value("operator"), ":")
	for _, probe := range []probed{weir.Ready, weir.Alive, weir.Started} {
		if probe.HTTPGet.Port != port {
			t.Errorf("a probe asks port %s, and %s has the operator", probe.HTTPGet.Port, port)
		}
	}
	if got := deployment.Pod.Annotations["prometheus.io/port"]; got != port {
		t.Errorf("Prometheus asks port %s", got)
	}
	drain := duration(t, value("drain-delay")) + duration(t, value("drain"))
	if grace := duration(t, strconv.Itoa(spec.Grace)+"s"); grace <= drain {
		t.Errorf("the service needs %v to end, and has %v", drain, grace)
	}

	// It begins with what Envoy Gateway has sent before, and no server is there.
	dir := t.TempDir()
	certificate(t, dir)
	state := filepath.Join(dir, "xds.json")
	if err := os.WriteFile(state, read(t, "internal/xds/testdata/envoy-gateway.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	there := strings.NewReplacer("/certs/", dir+"/", "/state/xds.json", state, "envoy-gateway:18001", "127.0.0.1:1",
		"$(REDIS_URL)", "127.0.0.1:1", "--operator=:6070", "--operator=127.0.0.1:0")
	args := make([]string, 0, len(weir.Args)+1)
	for _, arg := range weir.Args {
		args = append(args, there.Replace(arg))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := begin(t, dir, []string{asCommand + "=1"}, self, append(args, "--grpc=127.0.0.1:0")...)
	p.log.wait(t, "serve: ready")
	for _, probe := range []probed{weir.Ready, weir.Alive, weir.Started} {
		if r, _ := get(t, "GET", "http://"+p.at(t, "operator")+probe.HTTPGet.Path, "127.0.0.1"); r.StatusCode != 200 {
			t.Errorf("%s: %s", probe.HTTPGet.Path, r.Status)
		}
	}
	p.Process.Signal(syscall.SIGTERM)
	p.log.wait(t, "not ready, listeners stay open")
	p.end(t, syscall.SIGTERM) // at once
}

// certificate writes the files of a certificate that has signed itself into a directory.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.crt": {Type: "CERTIFICATE", Bytes: cert},
		"tls.key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
