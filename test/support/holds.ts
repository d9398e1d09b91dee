import { type Gate, gate } from './gate.ts'

/** The places where a test can make the server wait. */
export class Holds<Place> {
  readonly #gates = new Map<Place, Gate>()

  /** All that come to this place wait there until the gate is opened. */
  hold(place: Place): Gate {
    const held = gate()
    this.#gates.set(place, held)
    return {
      get entries() {
        return held.entries
      },
      enter: held.enter,
      entered: held.entered,
      open: () => {
        this.#remove(place, held)
        held.open()
      },
    }
  }

  /** Only the first one waits. */
  holdOnce(place: Place): Gate {
    const held = this.hold(place)
    const kept = this.#gates.get(place)
    void held.entered(1).then(() => kept && this.#remove(place, kept))
    return held
  }

  async reach(place: Place): Promise<void> {
    await this.#gates.get(place)?.enter()
  }

  openAll(): void {
    for (const held of this.#gates.values()) held.open()
    this.#gates.clear()
  }

  #remove(place: Place, held: Gate): void {
    if (this.#gates.get(place) === held) this.#gates.delete(place)
  }
}
