#include "headrace/prompts.h"

namespace headrace {

// clang-format off
const std::array<std::string_view, 64>& evaluation_prompts() {
  static constexpr std::array<std::string_view, 64> prompts = {
    // Python code.
    R"p(def median(values):
    """Return the middle value of a list of numbers.""")p",
    R"p(def read_config(path):
    """Parse a file of key = value lines into a dictionary."""
    settings = {}
    with open(path) as f:)p",
    R"p(class LinkedList:
    """A singly linked list."""

    def __init__(self):
        self.head = None)p",
    R"p(def binary_search(items, target):
    low = 0
    high = len(items) - 1
    while low <= high:)p",
    R"p(import os

def list_files(folder, suffix):
    """Yield the files under folder that end in suffix."""
    for)p",
    R"p(def fibonacci(n):
    if n < 2:
        return n)p",
    R"p(async def fetch_all(urls, limit=10):
    """Download every URL with at most limit requests at once.""")p",
    R"p(def word_count(text):
    counts = {}
    for word in text.lower().split():)p",
    R"p(@dataclass
class Point:
    x: float
    y: float

    def distance(self, other):)p",
    R"p(def flatten(nested):
    """Turn a list of lists into one flat list.

    >>> flatten([[1, 2], [3]]))p",
    R"p(def is_palindrome(s: str) -> bool:
    s = "".join(c for c in s if c.isalnum()))p",
    R"p(class Stack(object):
    def __init__(self, items=None):
        self._items = list(items or [])

    def push(self, item):)p",
    R"p(def parse_date(text):
    """Accept dates like 2024-03-17 and return (year, month, day)."""
    match = re.match()p",
    R"p(def retry(times, delay):
    def decorator(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):)p",
    R"p(def matrix_multiply(a, b):
    rows, inner, cols = len(a), len(b), len(b[0]))p",
    R"p(def send_mail(sender, recipients, subject, body):
    msg = EmailMessage()
    msg["From"] = sender)p",
    R"p(if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Rename photos by date")
    parser.add_argument()p",
    R"p(def gcd(a, b):
    """Greatest common divisor by Euclid's algorithm."""
    while b:)p",
    R"p(class Account:
    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError()p",
    R"p(def merge_sorted(left, right):
    result = []
    i = j = 0)p",
    R"p(def primes_below(limit):
    sieve = [True] * limit
    for p in range(2, int(limit ** 0.5) + 1):)p",
    R"p(def load_json(path, default=None):
    try:
        with open(path, encoding="utf-8") as handle:)p",
    R"p(def celsius_to_fahrenheit(degrees):
    return)p",
    R"p(class TemperatureSensor(threading.Thread):
    def run(self):
        while not self.stopped.is_set():)p",
    R"p(def group_by(records, key):
    """Group a list of dicts by the value under key."""
    groups = defaultdict(list))p",
    R"p(class LRUCache:
    def __init__(self, capacity):
        self.capacity = capacity)p",
    R"p(def test_addition(self):
        calc = Calculator()
        self.assertEqual(calc.add(2, 3), 5))p",
    R"p(def handle_request(self, request):
        if request.method == "GET":
            return self.do_get(request))p",
    R"p(def levenshtein(a, b):
    """Edit distance between two strings."""
    previous = list(range(len(b) + 1)))p",
    R"p(def to_roman(number):
    numerals = [(10, "X"), (9, "IX"), (5, "V"),)p",
    R"p(def copy_tree(src, dst, ignore=None):
    names = os.listdir(src)
    os.makedirs(dst, exist_ok=True))p",
    R"p(def moving_average(data, window):
    if window <= 0:
        raise ValueError("window must be positive")
    total =)p",
    // English prose.
    R"p(The first railways were built to carry coal, and it took some years before )p"
    R"p(anyone thought of)p",
    R"p(When Marta opened the door of the lighthouse, the lamp was already burning. She )p"
    R"p(had not)p",
    R"p(The city council voted on Tuesday to close the old harbour bridge to traffic, )p"
    R"p(saying that)p",
    R"p(Photosynthesis is the process by which plants turn light into chemical energy. )p"
    R"p(In the first stage,)p",
    R"p(There are two kinds of gardeners: those who plan everything in winter, and those who)p",
    R"p(To bake a simple loaf of bread, you need flour, water, salt and yeast. Begin by)p",
    R"p(My grandfather kept bees. Every spring he would walk down to the hives and)p",
    R"p(Most people believe that memory works like a camera, but research over the last )p"
    R"p(forty years has shown)p",
    R"p(The rain had stopped by the time the bus reached the village, and the driver)p",
    R"p(A good map leaves things out. The art of the mapmaker is to decide)p",
    R"p(Scientists have discovered a new species of frog in the cloud forests of the )p"
    R"p(Andes. The animal,)p",
    R"p(Inflation is often described as too much money chasing too few goods. In )p"
    R"p(practice, however,)p",
    R"p(Once upon a time, in a kingdom by the sea, there lived a clockmaker who could not)p",
    R"p(The human heart beats about one hundred thousand times a day. Each beat)p",
    R"p(Dear Mr. Hollis, I am writing to thank you for the books that you sent last month.)p",
    R"p(In chess, as in life, the hardest thing to learn is patience. A beginner sees)p",
    R"p(The telescope was switched on at midnight. For the first few minutes the screen )p"
    R"p(showed nothing but)p",
    R"p(Why is the sky blue? The short answer is that sunlight is scattered by)p",
    R"p(Learning to swim as an adult is mostly a matter of trust. The water will)p",
    R"p(The museum's new exhibition brings together more than eighty paintings from )p"
    R"p(private collections,)p",
    R"p(Rivers are never still. Even on a windless day, the surface of the water)p",
    R"p(Shares in the company fell sharply on Friday after it warned that profits for )p"
    R"p(the year would be)p",
    R"p(The old woman at the market sold only three things: candles, string and)p",
    R"p(Water boils at a lower temperature on a mountain than at sea level, because)p",
    R"p(It is tempting to think of the Middle Ages as a time without science. But)p",
    R"p(The train to the north leaves at six every morning, and on most days it is )p"
    R"p(almost empty. Today,)p",
    R"p(A healthy diet does not have to be expensive. Beans, rice and seasonal )p"
    R"p(vegetables are)p",
    R"p(Nobody in the office could remember who had hired Daniel, or exactly what he )p"
    R"p(was supposed to)p",
    R"p(Volcanoes form where molten rock rises through the crust of the Earth. Some of )p"
    R"p(them erupt)p",
    R"p(The referee looked at his watch, and the whole stadium held its breath. With )p"
    R"p(one minute left,)p",
    R"p(Friendship, the philosopher wrote, is a single soul living in two bodies. What )p"
    R"p(he meant was)p",
    R"p(Before the invention of the printing press, a book was copied by hand, and a )p"
    R"p(single volume could take)p",
  };
  return prompts;
}
// clang-format on

}  // namespace headrace
