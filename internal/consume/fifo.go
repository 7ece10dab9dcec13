package consume

// fifo is a queue that uses its room again.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

// all is what stands in the queue, the first in front; it may be changed in place.
func (q *fifo[T]) all() []T { return q.items[q.head:] }

func (q *fifo[T]) push(v T) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		q.replace(q.all())
	}
	q.items = append(q.items, v)
}

// drop takes n from the front.
func (q *fifo[T]) drop(n int) {
	clear(q.items[q.head : q.head+n])
	if q.head += n; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}

func (q *fifo[T]) pop() T {
	v := q.items[q.head]
	q.drop(1)
	return v
}

// pushFront puts vs before everything else.
func (q *fifo[T]) pushFront(vs ...T) {
	if q.head >= len(vs) {
		q.head -= len(vs)
		copy(q.items[q.head:], vs)
		return
	}
	q.items, q.head = append(append(make([]T, 0, len(vs)+q.len()), vs...), q.all()...), 0
}

// replace puts others, possibly its own, in the place of what stands in the queue.
func (q *fifo[T]) replace(vs []T) {
	n := copy(q.items, vs)
	clear(q.items[n:])
	q.items, q.head = q.items[:n], 0
}
