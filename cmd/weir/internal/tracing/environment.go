package tracing

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Variables of OpenTelemetry that decide whether and how spans are sent. The SDK reads them and all
// others, such as OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_HEADERS and OTEL_BSP_MAX_QUEUE_SIZE.
const (
	disabled       = "OTEL_SDK_DISABLED"
	exporters      = "OTEL_TRACES_EXPORTER"
	endpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	protocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	sampler        = "OTEL_TRACES_SAMPLER"
	samplerArg     = "OTEL_TRACES_SAMPLER_ARG"
)

const byGRPC, byHTTP = "grpc", "http/protobuf"

var protocols = []string{byHTTP, byGRPC, "http/json"}

var samplers = []string{
	"always_on", "always_off", "traceidratio",
	"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
}

// environment has variables; "" is the same as none.
type environment func(name string) string

// asksForSpans reports whether spans are to be sent: to an endpoint that is named, or by an exporter.
func (env environment) asksForSpans() bool {
	if strings.EqualFold(env(disabled), "true") || env(exporters) == "none" {
		return false
	}
	return env(exporters) != "" || env(endpoint) != "" || env(tracesEndpoint) != ""
}

// protocol returns how spans are sent, and the name of the variable that says so.
func (env environment) protocol() (value, name string) {
	for _, name := range []string{tracesProtocol, protocol} {
		if value := env(name); value != "" {
			return value, name
		}
	}
	return byHTTP, protocol
}

// validate returns every mistake. The SDK would go on with a default, such as a span of every check
// in place of one in a thousand.
func (env environment) validate() error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if e := env(exporters); e != "" && e != "otlp" {
		mistake("%s must be otlp, or none for no spans (got %q)", exporters, e)
	}
	if p, name := env.protocol(); !slices.Contains(protocols, p) {
		mistake("%s must be one of %s (got %q)", name, strings.Join(protocols, ", "), p)
	}
	for _, name := range []string{endpoint, tracesEndpoint} {
		text := env(name)
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			mistake("%s must be a URL such as http://collector:4318, or port 4317 with %s=%s", name, protocol, byGRPC)
		}
	}
	s, arg := strings.ToLower(env(sampler)), env(samplerArg)
	switch {
	case s != "" && !slices.Contains(samplers, s):
		mistake("%s must be one of %s (got %q)", sampler, strings.Join(samplers, ", "), s)
	case strings.HasSuffix(s, "traceidratio") && arg != "":
		if ratio, err := strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			mistake("%s must be a share from 0 to 1, such as 0.01 (got %q)", samplerArg, arg)
		}
	}
	return errors.Join(errs...)
}
