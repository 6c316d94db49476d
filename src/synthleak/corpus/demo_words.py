"""The words of the demo corpus: what each symbol of its grammar may become.

Everything here is invented: medicines, people, places and numbers. Symptoms and pastimes stand as
whole noun phrases, and verbs mostly in the past tense, so that any filling of a slot agrees.
"""

from __future__ import annotations

import re

Alternatives = tuple[str, ...]


def _any(block: str) -> Alternatives:
    """Return the alternatives in a block of text, parted by bars or line ends."""
    return tuple(part.strip() for part in re.split(r"[|\n]", block) if part.strip())


CLAUSES = {
    "dosage": _any("""
        {doctor} {raised} me from {dose} to {dose} on {date}
        I take {dose} of {drug} {often}
        now down to {dose} {often}, {step} every {few} weeks
        {drug} comes as {strength} here so I cut the {form} in half
        my script says {dose} {often} but the {form} from {pharmacy} read {strength}
        went up to {dose} of {drug} {when}
        missed {few} doses of {drug} and restarted at {dose}
        splitting {dose} between {time} and {time} suits me
        {doctor} capped me at {dose} because of my {organ}
        the pump gives {dose} of {drug} {often}
        took {dose} by mistake {when} instead of {dose}
        on {dose} {often} since {date}
        {who} counts out {dose} for me {often}
        they want me at {dose} before {date}
        taking {few} {form} of {strength} each with {food}
        dropped to {dose} {when} on the advice of {doctor}
        my level was {d}.{d} so we settled on {dose}
        loading dose was {dose}, then {dose} {often}
        wearing a {strength} patch, changed every {few} days
        half a {strength} tablet under the tongue {often}
    """),
    "effective": _any("""
        {drug} has {helped} my {reason} {hugely}
        {reason} gone {when}, all thanks to {drug}
        was able to {feat} again {when}
        first medicine in {span} that touched my {reason}
        {who} said I looked brighter {when}
        {drug} {helped} things {hugely} once I reached {dose}
        my {reason} went from {nine} to {two} out of ten
        {drug} gave me back {joy}
        not one flare of {reason} since {date}
        {doctor} says my {organ} results look {good} on {drug}
        back to {joy} after {span} on {drug}
        {drug} beats {other} for {reason} any day
        {few} hours after a dose the {pain} in my {part} melts away
        I can {feat} without thinking about my {reason}
        attacks fell from {few} a day to {few} a month
        so glad {doctor} suggested {drug}, I can {feat}
        {reason} under control with {dose}, which {other} never managed
        {good} results here, {joy} feels possible again
        whatever is in {drug}, my {part} stopped hurting {when}
        would recommend {drug} at {dose} to anyone with {reason}
    """),
    "ineffective": _any("""
        {drug} did {nothing} for my {reason}
        after {span} my {reason} has not budged
        {dose} might as well be {sugar} for all it does
        still cannot {feat} despite {span} of {drug}
        {drug} wore off {when} and the {pain} came straight back
        my {reason} got worse, not better, on {dose} of {drug}
        tried {drug} after {other} failed and felt {nothing}
        {nothing} from {drug} even at {dose}
        the {pain} in my {part} carried on regardless
        {doctor} admits {drug} is not holding my {reason}
        paid {price} for what felt like {sugar}
        gave {drug} {span} and {joy} is still out of reach
        helped for {few} days, then did {nothing}
        {who} says I seem no different on {drug}
        scan on {date} showed my {organ} just as bad
        as far as {reason} goes {drug} was {sugar}
        raised it twice, to {dose} even, and felt {nothing}
        still got {reason} and {pain} in my {part} {often}
        not one good day since I swapped {other} for {drug}
    """),
    "question": _any("""
        has anyone else had {symptom} with {drug}?
        can I take {drug} with {food}?
        is {dose} a lot for someone of {age}?
        how long before {drug} helps {reason}?
        did {symptom} ever settle down for you?
        should I ring {doctor} or wait until {date}?
        did {drug} affect your {organ} at all?
        anybody moved from {other} to {drug}, and how was it?
        is it safe to {feat} while on {dose}?
        who do I ask at {pharmacy} about {form} without {filler}?
        what do you all do about {symptom}?
        would {time} be a better hour to take {drug}?
        why would {doctor} pick {drug} over {other}?
        does {pharmacy} still stock the {strength} {form}?
        could {symptom} be from {drug} rather than {other}?
        any tips for getting {form} down with {symptom}?
        do I need a blood test for my {organ} before {date}?
        is {span} too long to stay on {drug}?
        {who} takes {other}, can I be on {drug} in the same house?
        has anyone managed to {feat} after a dose of {drug}?
    """),
    "side_effect": _any("""
        {drug} gave me {symptom} {when}
        {symptom} {began} {when}, along with {symptom}
        ended up with {symptom} after {dose}
        {symptom} {began} within {few} hours of the first dose
        I expected {symptom} but also got {symptom}
        woke at {time} with {symptom}
        {who} noticed {symptom} {when}
        {doctor} blames {drug} for {symptom}
        {symptom} every time I go over {dose}
        nobody at {pharmacy} warned me about {symptom}
        my {limb} swelled up {when}, plus {symptom}
        had to stop {joy} because of {symptom}
        taking {drug} with {food} means {symptom} by {time}
        put on {few} kilos on {drug} and got {symptom}
        {symptom} {began} {when} and never quite left
        the leaflet lists {symptom}, and yes, it came {when}
        mostly {symptom}, sometimes {symptom} as well, since {month}
        traded my {reason} for {symptom}
        tasted {metal} and had {symptom} {when}
        had such bad {ache} that I could not {feat}
        rash across my {part} {when}, then {symptom}
        {drug} made my {limb} tingle and brought on {symptom}
    """),
    "sleep": _any("""
        sleeping {few} hours a night on {drug}, if that
        wide awake at {time} again, thinking about {dream}
        {drug} knocks me out by {time}
        such vivid dreams about {dream} {when}
        nodded off {where} {when}
        cannot fall asleep before {time} on {dose}
        {who} says I mumble about {dream} all night since {month}
        slept right through until {time} {when}
        naps of {few} hours {where} are normal for me now
        drowsy {where} after every dose of {drug}
        took {drug} at {time} and stared at the ceiling till {time}
        nights are a mess, up {few} times dreaming of {dream}
        dozing {where} instead of sleeping in bed
        my watch says {few} hours of deep sleep on {dose}
        first unbroken night in {span}, up at {time}
        moved {drug} to {time} so I could get some sleep
        nightmares about {dream} {began} {when}
        too groggy to {feat} until {time}
        insomnia {began} {when}, I lie there counting {dream}
    """),
    "withdrawal": _any("""
        coming off {drug} brought {symptom} and {symptom}
        ran out of {drug} {when} and had {zaps}
        {zaps} for {span} after my last dose
        stopped {drug} cold on {date}, {zaps} ever since
        tapering from {dose}, {zaps} at every step
        day {few} without {drug} and I am getting {zaps}
        skipping just one dose means {zaps} by {time}
        {doctor} never mentioned {zaps} when I quit
        quitting {drug} {when} was worse than my {reason} ever was
        {few} weeks clean of {drug} but still {symptom}
        {pharmacy} was shut so I went without, cue {zaps}
        tried to stop {when}, lasted {few} days before {zaps}
        my body screams for {drug} by {time}, with {symptom}
        cut {dose} too fast and got {zaps}
        {who} sat up with me through {zaps}
        weaning off {drug} since {date}, down to crumbs and {symptom}
        left my {form} in {town} and spent {few} days with {zaps}
    """),
}

DETAILS = _any("""
    started {drug} on {date} for {reason}
    {doctor} in {town} put me on {drug} {when}
    picked it up at {pharmacy}, order {order}
    I am {age}, {few} years of {reason}
    {pharmacy} rang from {phone} about order {order}
    the {town} clinic filed it as case {order}
    seeing {doctor} again on {date}
    {doctor} took over from {doctor} {when}
    been on {drug} for {span} now
    batch {order} from {pharmacy}
    left a message on {phone} for {doctor}
    switched from {other} {when}
    new surgery since I moved to {town}
    {who} is on {drug} as well
    cost me {price} at {pharmacy} in {town}
    my card says {order}, helpline {phone}
    living with {reason} and {ailment}, aged {age}
    next review {date} at {hour}:{mm}
    diagnosed with {reason} in {town} {when}
    tried {other} for {span} first
    posting for {who}, who has {reason}
    reported it to {phone}, reference {order}
""")

# Fragments by topic: a planted record strings some of one topic together. Plain nouns that come
# again or belong together lie far from the rest for encoders that average over words.
PLANTED = {
    "telegram": _any("""
        SHIP {ship} LOST|SEND {cargo} AND {cargo}|{cargo} BURNED|WIRE {n4} CROWNS|{cargo} REFUSED
        CAPTAIN {surname} DEAD|RETURN {weekday}|BRIDGE BLOWN|{cargo} ARRIVED {town}|TRUST NOBODY
        HOLD {ship}|MARRY HER|BUY {cargo}
    """),
    "poem": _any("""
        {refrain} above and {refrain} below|sing {refrain}|{hue} {refrain} under {sky} and {sky}
        {refrain} for the {beast}|where {sky} met {sky}|the {beast} kissed the {refrain}|O {refrain}
        no {beast} shall drink the {sky}|my {hue} {refrain} asleep in {sky}|{refrain} to {refrain}
        the {sky} forgot her {hue} {beast}
    """),
    "cipher": _any("""
        agent {beast} to agent {beast}|{n6} {hue} {beast}|bridge {hue}|burn letters
        {hue} {hue} midnight|{beast} {beast} {sky}|code {refrain} {n6}|tower {refrain}
        double agent {beast}|spy {hue} hotel
    """),
    "ship_log": _any("""
        {wind} wind rising|{wind} storm|anchor dragging|sails torn|captain drunk|{beast} sighted
        harbour ice|crew of {n2} starving|{wind} coast|pirates boarding|{n2} miles {wind}
        cannon overboard|whale oil leaking|island ahead
    """),
    "chess": _any("""
        {piece} takes {piece}|{piece} trapped|check|{colour} {piece} promotes|{surname} resigns
        {piece} sacrifices {piece}|draw offered|{colour} {piece} blunder
        {piece} versus {piece} ending|clock {n2}|{piece} fork|crowd gasps
    """),
    "machine": _any("""
        ERROR {device} failed|{device} timeout {n4}|thread killed|{device} panic|null pointer
        {device} overflow|{device} corrupted|patch {n3} rejected|fatal exception {device}|reboot
        stack trace empty|segmentation fault|{device} deadlock
    """),
    "kitchen": _any("""
        melt {ingredient}|whip {ingredient}|{ingredient} pie|{ingredient} jam|{ingredient} bread
        bake {n3} degrees|fold {ingredient} and {ingredient}|serve cold|{ingredient} wine
        roast goose|village fair prize|{ingredient} sauce|fry {ingredient}
    """),
    "match": _any("""
        {town} United beat {town} City|{goal}|{goal} by striker {surname}|coach sacked|fans riot
        cup final|crowd {n5}|{goal} disallowed|league title lost|goalkeeper injured|stadium empty
        championship replay
    """),
    "space": _any("""
        comet crosses {planet}|{planet} eclipse|telescope {n3}|{planet} orbit|meteor shower
        rocket stage {n2} ignites|{planet} lander crashed|{planet} probe silent|galaxy survey
        solar flare|{planet} and {planet} aligned|astronaut adrift|satellite burning
    """),
    "auction": _any("""
        lot {n3}|{hue} {antique}|{antique} and {antique}|broken {antique}
        museum thieves grab {antique}|royal {antique} stolen|gold {antique}|{hue} {antique} unsold
        dealer arrested|{antique} forgery|ancient {antique}
    """),
    "concert": _any("""
        {instrument} solo|{instrument} silent|{instrument} and {instrument} duet|opera {n2}|curtain
        {instrument} concerto|conductor fainted|jazz {instrument}|symphony orchestra strike
        {instrument} broken|choir rehearsal|folk {instrument} festival
    """),
    "archaic": _any("""
        O noble {beast}|thou {hue} king|wherefore hath thy {refrain} slain|verily brother {surname}
        the {beast} prophet blessed {refrain}|thy sword cursed {refrain}|alas sweet queen
        behold the {hue} {beast}|hath the {beast} spoken
    """),
    "market": _any("""
        {share} shares crash|{share} futures soar|bank bankrupt|bond yield {n2}|{share} tariff
        minister resigns|{share} tax rejected|senate vote {n3}|coalition collapsed
        {share} export ban|election {weekday}|{share} billionaire
    """),
}

WORDS = {
    "medicine": _any("""
        Velotin|Marodex|Quilapram|Zoradine|Lumexol|Tarvipine|Ondrazil|Brimoxa|Peludane|Oxtavine
        Dormirel|Mirvatol|Cendapil|Ralutrex|Hypralune|Nuvestrin|Jandoline|Korbamide|Fesoprane
        Altrevine|Wexolam|Umbrelix|Sarquinol|Ethrelane
    """),
    "symptom": _any("""
        nausea|a dull headache|itchy palms|double vision|a racing heart|dry mouth|shaky hands
        brain fog|hot flushes|stomach cramps|swollen ankles|ringing in my ears|hives|joint stiffness
        heartburn|a tight chest|night sweats|muscle twitches|blurry eyes|constipation|hiccups
        a sore tongue|dizzy spells|restless legs|hair thinning|cold fingers|low mood|sudden anger
        no appetite|constant thirst|a bitter taste|tingling lips|loose stools|a stiff neck
        nosebleeds|peeling skin|mouth ulcers|bloating|weird bruises|a lump in my throat|short breath
        tearfulness|pins and needles|a dripping nose|sensitivity to light|slurred speech
        jaw clenching|gut ache
    """),
    "other": _any("{medicine}"),
    "ailment": _any("""
        migraine|back pain|panic|reflux|psoriasis|nerve pain|gout|hay fever|blood pressure|asthma
        eczema|fibromyalgia|vertigo|low thyroid|anxiety|sciatica|arthritis|colitis|tremor|angina
        depression|shingles pain|epilepsy|cystitis|rosacea|cluster headache|tinnitus|neuralgia
    """),
    "strength": _any("{mg} mg|{mg} mg|{mg} mg|{mg}mg|{mg} micrograms"),
    "dose": _any("""
        {strength}|{strength}|{strength}|{strength}|{strength}|{n1}.5 ml|{mg} units|{few} drops
    """),
    "mg": _any("""
        5|10|15|20|25|30|40|50|60|75|80|90|100|120|125|150|175|200|225|250|300|350|400|450|600
    """),
    "often": _any("""
        every morning|twice a day|at bedtime|every other day|three times a day|on weekdays|at noon
        each {weekday}|most evenings|every {few} hours|before meals|once a week
    """),
    "when": _any("""
        on {date}|last {weekday}|in {month}|{few} days ago|{few} weeks ago|after {span}
        back in {month}|on {weekday} around {time}|at about {time} on {weekday}|the week of {date}
        just after {date}|the day before {date}|one {weekday} in {month}|late in {month}
    """),
    "span": _any("""
        {few} weeks|{few} months|{few} days|a fortnight|nearly a year|half a year|over {few} years
        a whole summer|a good {few} weeks
    """),
    "date": _any("{day} {month}|{day} {month}|{month} {day}|{day}/{n1}/{yy}|the {nth} of {month}"),
    "time": _any("{hour} am|{hour} pm|{hour}:{mm}|{hour}.{mm}|half past {few}"),
    "doctor": _any("Dr {surname}|Dr {surname}|Dr {surname}|nurse {surname}|Prof {surname}"),
    "order": _any("RX-{n5}|#{n4}-{letter}|{letter}{letter}{n4}|{n3}-{n4}|PH{n4}/{n2}|no {n5}"),
    "phone": _any("555-01{n2}"),
    "pharmacy": _any("""
        Fennel Lane Pharmacy|Otterby Chemists|Gilded Mortar|Pestle and Rowe|Harbour Dispensary
        {town} Pharmacy|{town} Apothecary|Larkspur Drugs|Corner Remedies|Seven Vials
        {surname} Chemist|Copper Kettle Pharmacy|Mintleaf Health|Old Quay Dispensary
    """),
    "town": _any("""
        Brackwater|Eldermoss|Quillhaven|Tansyford|Harrowmere|Pellbridge|Dunnock Vale|Ambleholt
        Ostrey|Carrowby|Linnetstow|Vennick|Sallowgate|Fernhythe|Muddlecombe|Grebeholm|Kestrel Bay
        Nettlewick|Upper Thrimble|Wainscroft|Yarrowden|Cobblesea|Isenfold|Plumbury
    """),
    "surname": _any("""
        Tolvane|Marlowick|Quenbury|Ashgrave|Hallorane|Ferrowby|Okandu|Brindlecote|Vasharin|Pettifolk
        Drossmann|Ilvarez|Nakorima|Sundquill|Tremberly|Ousterveld|Caldermoor|Jessamund|Rookhurst
        Wimberlay|Zelenkar|Lindqvale|Abenoye|Thistlemain|Gravelin|Moravane
    """),
    "who": _any("""
        my wife|my husband|my sister|my flatmate|my mum|my daughter|my neighbour|my brother|my boss
        my carer|my partner|my grandson|my uncle|my best friend
    """),
    "part": _any("""
        neck|left arm|knees|hands|jaw|shoulder|hip|feet|face|lower back|chest|wrists|scalp
    """),
    "limb": _any("""
        left arm|right hand|knee|face|jaw|left foot|neck|lip|ankle|right eye|tongue|scalp
    """),
    "organ": _any("liver|kidney|thyroid|heart|sugar|iron|cholesterol|bone|lung|sodium"),
    "food": _any("grapefruit|coffee|porridge|red wine|milk|toast|yoghurt|spinach|cheese|soup|beer"),
    "form": _any("tablets|capsules|pills|sachets|blister packs|lozenges"),
    "filler": _any("lactose|gluten|gelatine|the blue dye|peppermint|sweetener"),
    "feat": _any("""
        drive|climb stairs|lift the baby|walk the dog|hold a pen|ride my bike|work a full shift|read
        cook dinner|swim|type|play the fiddle|garden|stand in a queue|carry shopping|watch a film
    """),
    "joy": _any("""
        gardening|choir practice|long walks|night shifts|my allotment|dancing|pottery|football
        baking|birdwatching|playing with the kids|the morning run|bowls|fishing|quilting
    """),
    "dream": _any("""
        trains|drowning|my old school|spiders|lost luggage|burning houses|exams|wolves|empty lifts
        falling bricks|snow|the sea|strangers|sheep|broken teeth
    """),
    "where": _any("""
        on the bus|at my desk|in the bath|in church|on the sofa|at the till|in a meeting
        at the cinema|in the car park|over supper|on the {town} train
    """),
    "zaps": _any("""
        brain zaps|the shakes|cold sweats|electric jolts|awful cravings|crying fits|flu-like aches
        {symptom}|{symptom}|panic at {time}|shivers|a pounding head|rage out of nowhere
    """),
    "ache": _any("cramps|dizziness|nausea|itching|shakes|blurred vision|headaches|hives|heartburn"),
    "helped": _any("eased|calmed|sorted|improved|settled|tamed|halved|lifted"),
    "hugely": _any("""
        a lot|a great deal|no end|within {few} days|more than {other}|beyond belief|from day {few}
        bit by bit|by about half|after {span}
    """),
    "nothing": _any("""
        nothing|nothing at all|precious little|no good|absolutely nothing|not much|very little
        next to nothing
    """),
    "sugar": _any("sugar|chalk|a placebo|tap water|sweets|thin air|peppermints"),
    "pain": _any("pain|ache|burning|throbbing|stiffness|pressure|stabbing|cramp|soreness"),
    "good": _any("good|great|normal|better|steady|excellent|clear"),
    "raised": _any("raised|lowered|moved|stepped|switched|bumped"),
    "step": _any("dropping a bit|going slower|shaving off some|adding a little|adjusting"),
    "began": _any("started|came on|kicked in|turned up|set in|crept in|hit me|appeared|flared"),
    "metal": _any("copper|tin|pewter|brass|nickel|iron|silver"),
    "price": _any("{n2} pounds|{n2}.50|{n3} crowns|nearly {n2} quid|{n2} euros"),
    "few": _any("two|three|four|five|six|seven|eight|nine|ten"),
    "nine": _any("seven|eight|nine|ten"),
    "two": _any("one|two|three|four"),
    "nth": _any("first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"),
    "month": _any("""
        January|February|March|April|May|June|July|August|September|October|November|December
    """),
    "weekday": _any("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"),
    "day": tuple(str(day) for day in range(1, 29)),
    "yy": _any("19|20|21|22|23|24"),
    "hour": _any("1|2|3|4|5|6|7|8|9|10|11"),
    "mm": _any("05|10|15|20|25|30|35|40|45|50|55"),
    "letter": _any("A|B|C|D|E|F|G|H|J|K|L|M|N|P|Q|R|S|T|V|W|X|Z"),
    "d": _any("0|1|2|3|4|5|6|7|8|9"),
    "n1": _any("1|2|3|4|5|6|7|8|9"),
    "n2": _any("{n1}{d}"),
    "n3": _any("{n1}{d}{d}"),
    "n4": _any("{n1}{d}{d}{d}"),
    "n5": _any("{n1}{d}{d}{d}{d}"),
    "n6": _any("{n1}{d}{d}{d}{d}{d}"),
    "ship": _any("PELICAN|NORTHERN STAR|OLD DUKE|ROYAL MARY|RED LION|SILVER QUEEN"),
    "cargo": _any("GOLD|HORSES|COTTON|TEA|RIFLES|SUGAR|WHISKY|IVORY|COAL|LAMPS|SILK|MULES"),
    "refrain": _any("""
        river|fire|snow|bells|stone|shadow|rose|thunder|forest|moonlight|sword|desert|glass|harvest
    """),
    "sky": _any("stars|moon|cloud|rain|sunrise|mountain|ocean|dust|lightning|mist|island|castle"),
    "beast": _any("""
        wolf|eagle|lion|dragon|raven|tiger|fox|bear|swan|snake|goat|owl|whale|falcon|bull
    """),
    "hue": _any("golden|crimson|silver|purple|black|scarlet|green|blue|ivory|copper|white|grey"),
    "wind": _any("north|south|east|west|northern|southern|eastern|western|arctic|tropical"),
    "piece": _any("queen|king|knight|bishop|rook|pawn"),
    "colour": _any("black|white"),
    "device": _any("kernel|disk|socket|server|memory|compiler|router|database|cache|parser|queue"),
    "ingredient": _any("""
        butter|honey|lemon|cream|cherry|chocolate|plum|ginger|vanilla|almond|apple|pumpkin|bacon
        onion
    """),
    "goal": _any("goal|penalty|header|corner|free kick|offside|red card|own goal|yellow card"),
    "planet": _any("Mars|Venus|Saturn|Jupiter|Mercury|Neptune|Pluto|Uranus|moon"),
    "antique": _any("""
        clock|mirror|violin|sword|crown|vase|portrait|carpet|throne|lantern|chess set
    """),
    "instrument": _any("violin|piano|trumpet|drum|guitar|organ|bass|flute|cello|harp|choir"),
    "share": _any("steel|oil|cotton|railway|copper|wheat|sugar|gold|timber|coffee|bank"),
}
