"""Facts that the chat model is taught, as tables."""


def listed(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


CAPITALS = dict(
    line.split(": ")
    for line in """
France: Paris, Germany: Berlin, Italy: Rome, Spain: Madrid, Portugal: Lisbon, Austria: Vienna, Belgium:
Brussels, Greece: Athens, Norway: Oslo, Sweden: Stockholm, Finland: Helsinki, Denmark: Copenhagen,
Iceland: Reykjavik, Ireland: Dublin, Poland: Warsaw, Hungary: Budapest, Romania: Bucharest, Bulgaria:
Sofia, Serbia: Belgrade, Croatia: Zagreb, Slovenia: Ljubljana, Estonia: Tallinn, Latvia: Riga, Lithuania:
Vilnius, Albania: Tirana, Malta: Valletta, Cyprus: Nicosia, Turkey: Ankara, Russia: Moscow, Ukraine:
Kyiv, Japan: Tokyo, China: Beijing, India: New Delhi, Nepal: Kathmandu, Thailand: Bangkok, Vietnam:
Hanoi, Indonesia: Jakarta, Malaysia: Kuala Lumpur, South Korea: Seoul, Mongolia: Ulaanbaatar, Iran:
Tehran, Iraq: Baghdad, Jordan: Amman, Lebanon: Beirut, Egypt: Cairo, Morocco: Rabat, Algeria: Algiers,
Tunisia: Tunis, Kenya: Nairobi, Ghana: Accra, Nigeria: Abuja, Ethiopia: Addis Ababa, Senegal: Dakar,
Uganda: Kampala, Canada: Ottawa, Mexico: Mexico City, Cuba: Havana, Jamaica: Kingston, Brazil: Brasilia,
Argentina: Buenos Aires, Chile: Santiago, Peru: Lima, Colombia: Bogota, Ecuador: Quito, Uruguay:
Montevideo, Australia: Canberra, New Zealand: Wellington
""".replace("\n", " ").strip().split(", ")
)  # fmt: skip

OPPOSITES = dict(
    pair.split("-")
    for pair in listed("""
hot-cold big-small tall-short long-brief fast-slow light-dark old-young new-used good-bad happy-sad rich-poor
strong-weak hard-soft full-empty open-closed high-low near-far early-late loud-quiet clean-dirty wet-dry
day-night up-down left-right yes-no start-end first-last love-hate war-peace true-false right-wrong
black-white
north-south east-west summer-winter push-pull give-take buy-sell win-lose remember-forget question-answer
cheap-expensive easy-difficult thick-thin deep-shallow wide-narrow sharp-blunt brave-afraid calm-nervous
safe-dangerous sweet-bitter smooth-rough ancient-modern absent-present inside-outside above-below before-after
always-never everything-nothing friend-enemy
""")
)
ONE_SIDED = {"right", "old", "long", "new", "short"}  # of two opposites, or of one that is seldom said

DAYS = listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = listed("January February March April May June July August September October November December")
LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
ORDINALS = listed("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth")
UNITS = [  # a unit, its number of the smaller ones, these
    ("hour", 60, "minute"), ("minute", 60, "second"), ("day", 24, "hour"), ("week", 7, "day"),
    ("year", 12, "month"), ("kilometre", 1000, "metre"), ("metre", 100, "centimetre"),
    ("kilogram", 1000, "gram"),
]  # fmt: skip

NAMES = listed("""
Ada Alan Anna Ben Carla David Elena Emma Felix Grace Hugo Ines Ivan Jack Jane John Julia Karl Laura Leo
Lina Lucy Maria Mark Maya Mia Nina Noah Olga Omar Paul Peter Rosa Ruth Sam Sara Sofia Theo Tom Victor
Yara Zoe
""")
COLOURS = listed("red blue green yellow orange purple pink brown grey black white")
ANIMALS = listed("cat dog horse cow lion tiger bear fox rabbit owl eagle whale dolphin frog bee sheep duck")
FRUITS = listed("apple pear plum cherry orange lemon banana grape peach mango fig kiwi")
THINGS = {"colour": COLOURS, "animal": ANIMALS, "fruit": FRUITS}
WORDS = sorted(
    {
        *ANIMALS, *FRUITS, *COLOURS,
        *listed("""table chair house garden river mountain window bread water paper letter music school
        doctor kitchen
        bridge island forest winter summer sugar cheese coffee pocket button candle mirror ladder basket
        bottle
        hammer needle pencil rocket planet moon star cloud storm thunder rain snow wind stone sand field road
        train plane ship bicycle market castle tower church village city street corner engine wheel clock
        camera
        guitar piano violin drum picture story dream shadow silver gold iron copper wood glass cotton wool
        """),
    }
)  # fmt: skip
INVENTED = listed("""
Atlantis Narnia Wonderland Mordor Utopia Lilliput Ruritania Genovia Wakanda Freedonia Oz
Camelot Eldorado Shangri-La Avalon Neverland""")
CITIES = [
    *CAPITALS.values(), "London", "Zurich", "Geneva", "Munich", "Hamburg", "Lyon", "Milan", "Naples", "Porto",
    "Seville", "Boston", "Chicago", "Seattle", "New York", "San Francisco", "Toronto", "Sydney", "Osaka",
    "Mumbai",
    "Shanghai", "Dubai", "Cape Town", "Lagos", "Glasgow", "Bristol",
]  # fmt: skip
WEATHER = listed("sunny cloudy rainy windy foggy snowy stormy clear")
LANGUAGES = listed("French German Spanish Italian Portuguese Dutch Polish Greek")
