module distlock/rueidislock

go 1.26.0

require (
	distlock/peers v0.0.0
	github.com/redis/rueidis v1.0.79
	github.com/redis/rueidis/rueidislock v1.0.79
)

replace distlock/peers => ../go
