module github.com/weir-go/weir/examples/operations

go 1.26.0

require (
	github.com/prometheus/client_golang v1.24.1
	github.com/weir-go/weir v0.0.0
	github.com/weir-go/weir/stats/weirprom v0.0.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.70.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	github.com/redis/go-redis/v9 v9.20.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace (
	github.com/weir-go/weir => ../..
	github.com/weir-go/weir/stats/weirprom => ../../stats/weirprom
)
