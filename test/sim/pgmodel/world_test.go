package pgmodel_test

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/test/sim/pgmodel"
)

// world is a world without surprises but those of its seed.
type world struct {
	now     time.Duration
	next    int
	queue   events
	random  *rand.Rand
	servers map[string]*pgmodel.Server
	cut     map[[2]string]bool
}

type event struct {
	at  time.Duration
	seq int
	run func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newWorld(seed uint64, names ...string) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), servers: map[string]*pgmodel.Server{}, cut: map[[2]string]bool{},
	}
	for _, name := range names {
		w.servers[name] = pgmodel.New(w, name)
	}
	return w
}

func (w *world) Now() time.Duration { return w.now }

func (w *world) After(d time.Duration, run func()) {
	w.next++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.next, run})
}

func (w *world) Between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)+1))
}

func (w *world) Connected(from, to string) bool { return !w.cut[[2]string{from, to}] }

func (w *world) Find(name string) *pgmodel.Server { return w.servers[name] }

// settle lets some time pass.
func (w *world) settle(d time.Duration) {
	end := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= end {
		next := heap.Pop(&w.queue).(event)
		w.now = next.at
		next.run()
	}
	w.now = end
}
