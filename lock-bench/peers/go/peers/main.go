// Command peers drives the lock libraries in Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"distlock/peers"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/zeromicro/go-zero/core/logx"
	zero "github.com/zeromicro/go-zero/core/stores/redis"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func main() {
	// Its log would go to the standard output, for every library.
	logx.Disable()
	peers.Main(connect)
}

var forEver = context.Background()

func connect(setting peers.Setting) (peers.Connected, error) {
	client := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: setting.Address, PoolSize: 64}) }
	switch setting.System {
	case "redsync":
		return connected("github.com/go-redsync/redsync/v4", redsyncSystem{redsync.New(goredis.NewPool(client())), setting.TTL})
	case "bsm-redislock":
		return connected("github.com/bsm/redislock", bsmSystem{redislock.New(client()), setting.TTL})
	case "go-zero":
		store, err := zero.NewRedis(zero.RedisConf{Host: setting.Address, Type: zero.NodeType})
		if err != nil {
			return peers.Connected{}, err
		}
		return connected("github.com/zeromicro/go-zero", zeroSystem{store, setting.TTL})
	case "concurrency":
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{setting.Address}, DialTimeout: 5 * time.Second})
		if err != nil {
			return peers.Connected{}, err
		}
		return connected("go.etcd.io/etcd/client/v3", etcdSystem{client, setting.TTL})
	}
	return peers.Connected{}, fmt.Errorf("there is no system %s", setting.System)
}

// connected finds the version of the library that was built in.
func connected(module string, system peers.System) (peers.Connected, error) {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return peers.Connected{}, errors.New("the program does not know what it was built from")
	}
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			return peers.Connected{System: system, Version: dependency.Version}, nil
		}
	}
	return peers.Connected{}, fmt.Errorf("%s is not built in", module)
}

type redsyncSystem struct {
	redsync *redsync.Redsync
	ttl     time.Duration
}

// Lock tries without limit, with the default pauses of the library.
func (s redsyncSystem) Lock(name string) (peers.Lock, error) {
	return &redsyncLock{s.redsync.NewMutex(name, redsync.WithExpiry(s.ttl), redsync.WithTries(1<<30))}, nil
}

type redsyncLock struct{ mutex *redsync.Mutex }

func (l *redsyncLock) Acquire() error { return l.mutex.Lock() }

func (l *redsyncLock) Release() (bool, error) {
	kept, err := l.mutex.Unlock()
	if errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return false, nil
	}
	return kept, err
}

func (l *redsyncLock) Close() {}

type bsmSystem struct {
	client *redislock.Client
	ttl    time.Duration
}

func (s bsmSystem) Lock(name string) (peers.Lock, error) {
	return &bsmLock{system: s, name: name}, nil
}

type bsmLock struct {
	system bsmSystem
	name   string
	held   *redislock.Lock
}

func (l *bsmLock) Acquire() error {
	retry := &redislock.Options{RetryStrategy: redislock.ExponentialBackoff(16*time.Millisecond, 64*time.Millisecond)}
	// Obtain waits no longer than the ttl.
	for {
		held, err := l.system.client.Obtain(forEver, l.name, l.system.ttl, retry)
		if errors.Is(err, redislock.ErrNotObtained) {
			continue
		}
		l.held = held
		return err
	}
}

func (l *bsmLock) Release() (bool, error) {
	err := l.held.Release(forEver)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return true, err
}

func (l *bsmLock) Close() {}

type zeroSystem struct {
	store *zero.Redis
	ttl   time.Duration
}

func (s zeroSystem) Lock(name string) (peers.Lock, error) {
	lock := zero.NewRedisLock(s.store, name)
	lock.SetExpire(int(s.ttl / time.Second))
	return zeroLock{lock}, nil
}

type zeroLock struct{ lock *zero.RedisLock }

// Acquire is a loop, because the library can only try.
func (l zeroLock) Acquire() error {
	for {
		taken, err := l.lock.Acquire()
		if taken || err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (l zeroLock) Release() (bool, error) { return l.lock.Release() }

func (l zeroLock) Close() {}

type etcdSystem struct {
	client *clientv3.Client
	ttl    time.Duration
}

// Lock has a session of its own: within one session all tasks that lock a mutex hold it.
func (s etcdSystem) Lock(name string) (peers.Lock, error) {
	session, err := concurrency.NewSession(s.client, concurrency.WithTTL(int(s.ttl/time.Second)))
	if err != nil {
		return nil, err
	}
	return &etcdLock{session, concurrency.NewMutex(session, name)}, nil
}

type etcdLock struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (l *etcdLock) Acquire() error { return l.mutex.Lock(forEver) }

func (l *etcdLock) Release() (bool, error) {
	select {
	case <-l.session.Done():
		return false, nil
	default:
		return true, l.mutex.Unlock(forEver)
	}
}

func (l *etcdLock) Close() { _ = l.session.Close() }
