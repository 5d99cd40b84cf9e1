// Command rueidislock drives the lock of rueidis. It is a module of its own, because some mirrors of modules do not have rueidis.
package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"distlock/peers"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func main() {
	peers.Main(connect)
}

func connect(setting peers.Setting) (peers.Connected, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{setting.Address}},
		KeyMajority:  1,
		KeyValidity:  setting.TTL,
	})
	if err != nil {
		return peers.Connected{}, err
	}
	build, _ := debug.ReadBuildInfo()
	for _, dependency := range build.Deps {
		if dependency.Path == "github.com/redis/rueidis/rueidislock" {
			return peers.Connected{System: system{locker}, Version: dependency.Version}, nil
		}
	}
	return peers.Connected{}, fmt.Errorf("rueidislock is not built in")
}

type system struct{ locker rueidislock.Locker }

func (s system) Lock(name string) (peers.Lock, error) {
	return &lock{locker: s.locker, name: name}, nil
}

type lock struct {
	locker  rueidislock.Locker
	name    string
	held    context.Context
	release context.CancelFunc
}

func (l *lock) Acquire() (err error) {
	l.held, l.release, err = l.locker.WithContext(context.Background(), l.name)
	return err
}

func (l *lock) Release() (bool, error) {
	kept := l.held.Err() == nil
	l.release()
	return kept, nil
}

func (l *lock) Close() {}
