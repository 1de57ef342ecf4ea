package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type fields map[string]any

type identity struct {
	generation int32
	member     string
}

// membership is what the member owns and has read, told to whoever reads stdout: Membership of ../member.py.
type membership struct {
	sync.Mutex
	identity    identity
	owned       map[string]bool
	uncommitted map[string]int64
}

func newMembership() *membership {
	return &membership{identity: identity{generation: -1}, owned: map[string]bool{}, uncommitted: map[string]int64{}}
}

func (m *membership) tell(event string, what fields) {
	m.Lock()
	defer m.Unlock()
	m.write(event, what)
}

func (m *membership) assigned(partitions []string, identity identity) {
	m.Lock()
	defer m.Unlock()
	m.identity = identity
	for _, partition := range partitions {
		m.owned[partition] = true
		delete(m.uncommitted, partition)
	}
	m.write("assigned", fields{"partitions": partitions, "owned": m.allOwned()})
}

func (m *membership) gone(event string, partitions []string, identity identity) {
	m.Lock()
	defer m.Unlock()
	if len(partitions) == 0 {
		return
	}
	if identity.generation > 0 {
		m.identity = identity
	}
	for _, partition := range partitions {
		delete(m.owned, partition)
	}
	m.write(event, fields{"partitions": partitions, "owned": m.allOwned()})
}

func (m *membership) forgetWhatWasTaken() {
	m.Lock()
	defer m.Unlock()
	for partition := range m.uncommitted {
		if !m.owned[partition] {
			delete(m.uncommitted, partition)
		}
	}
}

func (m *membership) read(partition string, records []*kgo.Record) {
	m.Lock()
	defer m.Unlock()
	first, last := records[0].Offset, records[0].Offset-1
	for _, record := range records {
		if string(record.Value) != strconv.FormatInt(record.Offset, 10) {
			check(fmt.Errorf("%s holds %q at %d", partition, record.Value, record.Offset))
		}
		if record.Offset != last+1 {
			m.write("read", fields{"partition": partition, "first": first, "last": last})
			first = record.Offset
		}
		last = record.Offset
	}
	m.write("read", fields{"partition": partition, "first": first, "last": last})
	m.uncommitted[partition] = last + 1
}

// uncommittedOf these partitions; of all, if none are given.
func (m *membership) uncommittedOf(partitions []string) map[string]int64 {
	m.Lock()
	defer m.Unlock()
	offsets := map[string]int64{}
	for partition, offset := range m.uncommitted {
		if partitions == nil || slices.Contains(partitions, partition) {
			offsets[partition] = offset
		}
	}
	return offsets
}

func (m *membership) committed(offsets map[string]int64, err error) {
	m.Lock()
	defer m.Unlock()
	if err != nil {
		m.write("refused", fields{"offsets": offsets, "error": err.Error()})
		return
	}
	m.write("committed", fields{"offsets": offsets})
	for partition, offset := range offsets {
		if m.uncommitted[partition] == offset {
			delete(m.uncommitted, partition)
		}
	}
}

func (m *membership) write(event string, what fields) {
	line := fields{
		"event":      event,
		"at":         float64(time.Now().UnixMicro()) / 1e6,
		"generation": m.identity.generation,
		"member":     m.identity.member,
	}
	for field, value := range what {
		line[field] = value
	}
	check(json.NewEncoder(os.Stdout).Encode(line))
}

func (m *membership) allOwned() []string {
	owned := []string{}
	for partition := range m.owned {
		owned = append(owned, partition)
	}
	slices.Sort(owned)
	return owned
}

func identityOf(client *kgo.Client) identity {
	member, generation := client.GroupMetadata()
	return identity{generation: generation, member: member}
}

func names(partitions map[string][]int32) []string {
	all := []string{}
	for topic, indexes := range partitions {
		for _, index := range indexes {
			all = append(all, name(topic, index))
		}
	}
	slices.Sort(all)
	return all
}

func name(topic string, partition int32) string { return fmt.Sprintf("%s-%d", topic, partition) }

func split(name string) (string, int32) {
	dash := strings.LastIndexByte(name, '-')
	index, err := strconv.ParseInt(name[dash+1:], 10, 32)
	check(err)
	return name[:dash], int32(index)
}
